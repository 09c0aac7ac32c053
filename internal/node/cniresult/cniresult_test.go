package cniresult_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/cniresult"
)

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestCachedResultsAreDecoded(t *testing.T) {
	const args = `"cniArgs":[["IgnoreUnknown","1"],["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","web-1"],["K8S_POD_INFRA_CONTAINER_ID","c1"],["K8S_POD_UID","u1"]],`
	for name, test := range map[string]struct {
		text string
		want cniresult.Sandbox
		ok   bool
	}{
		"a pod": {
			`{"kind":"cniCacheV1","containerId":"c1","config":"e30=","ifName":"eth0","networkName":"n","netns":"0f1a2b3c-0000-4000-8000-000000000001",` + args +
				`"result":{"cniVersion":"1.0.0","ips":[{"address":"10.132.1.5/24"}]}}`,
			cniresult.Sandbox{Container: "c1", Namespace: "shop", Name: "web-1", UID: "u1", Addresses: addresses("10.132.1.5")}, true,
		},
		"two families": {
			`{"containerId":"c1","result":{"cniVersion":"1.0.0","ips":[{"address":"fd00::5/64"},{"address":"10.132.1.5/24"}]}}`,
			cniresult.Sandbox{Container: "c1", Addresses: addresses("10.132.1.5")}, true,
		},
		"before CNI 0.3": {
			`{"containerId":"c2","result":{"cniVersion":"0.2.0","ip4":{"ip":"10.132.1.6/24"}}}`,
			cniresult.Sandbox{Container: "c2", Addresses: addresses("10.132.1.6")}, true,
		},
		"cut in half":  {`{"kind":"cniCacheV1","containerId":"c`, cniresult.Sandbox{}, false},
		"no address":   {`{"containerId":"c3","result":{}}`, cniresult.Sandbox{Container: "c3"}, false},
		"no container": {`{"result":{"ip4":{"ip":"10.132.1.6/24"}}}`, cniresult.Sandbox{}, false},
	} {
		got, ok := cniresult.Decode([]byte(test.text))
		if diff := cmp.Diff(fmt.Sprintf("%+v %t", test.want, test.ok), fmt.Sprintf("%+v %t", got, ok)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzDecode: containers cannot write these files, but a power failure can damage them.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"containerId":"c1","cniArgs":[["K8S_POD_NAME","x"]],"result":{"ips":[{"address":"10.132.1.5/24"}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := cniresult.Decode(b)
		if ok && (s.Container == "" || len(s.Addresses) == 0) {
			t.Errorf("%q is sandbox %+v", b, s)
		}
		for _, a := range s.Addresses {
			if !a.Is4() {
				t.Errorf("%q has address %s", b, a)
			}
		}
	})
}
