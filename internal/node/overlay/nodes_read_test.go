package overlay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bigNode is a Node with all fields of real ones that the overlay ignores.
func bigNode(i int) string {
	return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n%d","resourceVersion":"%d","managedFields":[{"manager":"kubelet","fieldsV1":{"f:x":"%s"}}],
		"labels":{"kubernetes.io/os":"windows","a":"b"},"annotations":{"other":"x","k8s.ovn.org/hybrid-overlay-node-subnet":"10.132.%d.0/24",
		"k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac":"00-15-5D-00-00-%02X"}},"spec":{"podCIDR":"10.0.0.0/24"},
		"status":{"conditions":[{"type":"Ready","status":"True","message":"m"}],"addresses":[{"type":"Hostname","address":"n"},{"type":"InternalIP","address":"192.0.2.%d"}],
		"images":[{"names":["%s"],"sizeBytes":7}]}}`, i, i, strings.Repeat("m", 4000), i, i, i, strings.Repeat("i", 9000))
}

func TestNodesAreReduced(t *testing.T) {
	got, err := readNode(json.RawMessage(bigNode(5)))
	want := Node{Name: "n5", Windows: true, Subnet: "10.132.5.0/24", RouterMAC: "00-15-5D-00-00-05", InternalIPs: []string{"192.0.2.5"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// FuzzNode checks that no input causes a panic or an invalid Node.
func FuzzNode(f *testing.F) {
	f.Add([]byte(bigNode(1)))
	f.Add([]byte(`{"status":"Failure","code":410}`))
	f.Add([]byte(`{"status":{"addresses":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := readNode(b)
		if err != nil {
			return
		}
		if _, err := json.Marshal(n); err != nil {
			t.Error(err)
		}
		_ = Settings{}.decide(Node{}, []Node{n}, nil)
	})
}
