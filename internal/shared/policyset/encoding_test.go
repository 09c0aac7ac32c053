package policyset

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// shop returns a set with every field.
func shop() Set {
	return Set{
		Namespace: "shop",
		Unlisted:  Directions{Ingress: true, Egress: true},
		Policies: []Policy{
			{Name: "dns", Isolates: Directions{Egress: true}, Egress: []Rule{
				{AnyPeer: true, Ports: []Port{{Protocol: hns.UDP, First: 53, Last: 53}}}, {Peers: new(1), AnyPort: true},
			}},
			{Name: "web", Isolates: Directions{Ingress: true}, Ingress: []Rule{
				{Peers: new(0), Ports: []Port{{Protocol: hns.TCP, First: 80, Last: 90}, {Protocol: hns.TCP, Name: "http"}}},
			}},
		},
		Addresses: [][]netip.Prefix{prefixes("10.0.0.1/32", "10.0.0.2/31"), prefixes("192.168.0.0/16")},
		Pods: []Pod{
			{Name: "batch-1", UID: "u1"},
			{Name: "web-1", UID: "u2", Policies: []int{0, 1}, Ports: []NamedPort{{"http", hns.TCP, 8080}}},
		},
	}
}

func TestSetRoundTrips(t *testing.T) {
	for name, want := range map[string]Set{
		"all fields": shop(), "closed": Closed("shop"), "no policies": {Namespace: "shop"},
		"omitted": {Namespace: "shop", Unlisted: Directions{Ingress: true}, Omitted: MaxSize + 1},
	} {
		data, err := Encode(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := Decode("shop", data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v (%v), want %+v from %s", name, got, err, want, data)
		}
	}
}

const encodedShop = `{"version":1,"namespace":"shop","unlisted":{"ingress":true,"egress":true},` +
	`"policies":[{"name":"dns","isolates":{"egress":true},` +
	`"egress":[{"anyPeer":true,"ports":[{"protocol":17,"first":53,"last":53}]},{"peers":1,"anyPort":true}]},` +
	`{"name":"web","isolates":{"ingress":true},` +
	`"ingress":[{"peers":0,"ports":[{"protocol":6,"first":80,"last":90},{"protocol":6,"name":"http"}]}]}],` +
	`"addresses":[["10.0.0.1/32","10.0.0.2/31"],["192.168.0.0/16"]],` +
	`"pods":[{"name":"batch-1","uid":"u1"},{"name":"web-1","uid":"u2","policies":[0,1],"ports":[{"name":"http","protocol":6,"port":8080}]}]}`

// TestFormatIsStable compares the encoding with the one that nodes of other versions read.
func TestFormatIsStable(t *testing.T) {
	data, err := Encode(shop())
	if err != nil || string(data) != encodedShop {
		t.Errorf("got  %s (%v)\nwant %s", data, err, encodedShop)
	}
}

// TestUnreadableSetsClose changes one thing in a valid set. Each must be an error, with a set that closes both directions of any pod.
func TestUnreadableSetsClose(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`{"version":1,`, `{"version":2,`, "version 2"},
		{`{"version":1,`, `{`, "version 0"},
		{`{"version":1,`, `{"version":"1",`, "cannot unmarshal"},
		{`{"version":1,`, `{"version":1,"except":[],`, "unknown field"},
		{`"name":"dns",`, `"name":"dns","denies":true,`, "unknown field"},
		{`{"peers":1,`, `{"peers":1,"except":0,`, "unknown field"},
		{`"uid":"u1"`, `"uid":"u1","closed":true`, "unknown field"},
		{`"namespace":"shop"`, `"namespace":"bank"`, "bank"},
		{`"namespace":"shop",`, ``, "namespace"},
		{`8080}]}]}`, `8080}]}]`, ""},
		{`8080}]}]}`, `8080}]}]}{}`, ""},
		{`8080}]}]}`, `8080}]}]} x`, ""},
		{`"unlisted":{"ingress":true,"egress":true},`, ``, "unlisted pods are open"},
		{`"ingress":true,"egress":true}`, `"ingress":true}`, "unlisted pods are open"},
		{`"isolates":{"egress":true}`, `"isolates":{}`, "no direction"},
		{`"isolates":{"egress":true}`, `"isolates":{"ingress":true}`, "does not isolate"},
		{`"isolates":{"ingress":true}`, `"isolates":{"egress":true}`, "does not isolate"},
		{`"name":"dns"`, `"name":"xdns"`, "is not after"},
		{`"name":"dns"`, `"name":"web"`, "is not after"},
		{`"name":"dns"`, `"name":""`, "name"},
		{`"name":"dns"`, `"name":"d\nns"`, "name"},
		{`"peers":1`, `"peers":2`, "list of addresses"},
		{`"peers":1`, `"peers":-1`, "list of addresses"},
		{`{"peers":1,`, `{`, "list of addresses"},
		{`"anyPeer":true,`, `"anyPeer":true,"peers":0,`, "list of addresses"},
		{`"anyPort":true`, `"anyPort":false`, "list of ports"},
		{`"anyPort":true`, `"anyPort":true,"ports":[{"protocol":6,"first":1,"last":2}]`, "list of ports"},
		{`"protocol":17`, `"protocol":1`, "neither a range"},
		{`"protocol":17`, `"protocol":0`, "neither a range"},
		{`"protocol":17`, `"protocol":256`, "cannot unmarshal"},
		{`"first":53,`, ``, "neither a range"},
		{`"first":53`, `"first":54`, "neither a range"},
		{`"first":53`, `"first":65536`, "cannot unmarshal"},
		{`"first":53,"last":53`, `"name":"dns"`, "neither a range"}, // names are for ingress
		{`"name":"http"}]}]}]`, `"name":"http","first":1,"last":1}]}]}]`, "neither a range"},
		{`"10.0.0.1/32","10.0.0.2/31"`, ``, "empty"},
		{`"10.0.0.1/32","10.0.0.2/31"`, `"10.0.0.2/31","10.0.0.1/32"`, "not sorted"},
		{`"10.0.0.1/32","10.0.0.2/31"`, `"10.0.0.0/32","10.0.0.1/32"`, "could be shorter"},
		{`"10.0.0.1/32"`, `"10.0.0.1/32","10.0.0.1/32"`, "could be shorter"},
		{`"10.0.0.2/31"`, `"10.0.0.3/31"`, "is not an IPv4 prefix"},
		{`"10.0.0.2/31"`, `"2001:db8::/32"`, "is not an IPv4 prefix"},
		{`"10.0.0.2/31"`, `null`, "is not an IPv4 prefix"},
		{`"10.0.0.2/31"`, `"10.0.0.2"`, "ParsePrefix"},
		{`"uid":"u1"`, `"uid":""`, "UID"},
		{`"name":"batch-1"`, `"name":"web-1"`, "is not after"},
		{`"policies":[0,1],"ports"`, `"policies":[1,0],"ports"`, "indexes"},
		{`"policies":[0,1],"ports"`, `"policies":[0,0],"ports"`, "indexes"},
		{`"policies":[0,1],"ports"`, `"policies":[0,2],"ports"`, "indexes"},
		{`"policies":[0,1],"ports"`, `"policies":[-1],"ports"`, "indexes"},
		{`"port":8080`, `"port":0`, "ports[0]"},
		{`"port":8080}`, `"port":8080},{"name":"http","protocol":6,"port":80}`, "ports[1]"},
		{`"policies":[{"name":"dns"`, `"omitted":5,"policies":[{"name":"dns"`, "omitted"},
	} {
		data := strings.Replace(encodedShop, c.old, c.new, 1)
		if data == encodedShop {
			t.Fatalf("the set has no %s", c.old)
		}
		set, err := Decode("shop", []byte(data))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %s: got error %v, want %q", c.new, err, c.want)
		}
		ingress, egress := Merge(set, PodID{"batch-1", "u1"})
		if !ingress.Isolated || !egress.Isolated || len(ingress.Grants)+len(egress.Grants) > 0 {
			t.Errorf("with %s, a pod has %+v and %+v", c.new, ingress, egress)
		}
	}
	const begin = `{"version":1,"namespace":"shop",`
	for _, data := range []string{"", "null", "[]", begin + `"omitted":-1}`, begin + `"omitted":7}`} {
		if set, err := Decode("shop", []byte(data)); err == nil || !reflect.DeepEqual(set, Closed("shop")) {
			t.Errorf("%q: got %+v (%v)", data, set, err)
		}
	}
}

func TestSetSizeIsLimited(t *testing.T) {
	set := Set{Namespace: "shop"}
	for i := range 40_000 {
		set.Pods = append(set.Pods, Pod{Name: fmt.Sprintf("pod-%05d", i), UID: "u"})
	}
	data, err := Encode(set)
	if !errors.Is(err, ErrTooLarge) || len(data) <= MaxSize {
		t.Errorf("a set of %d bytes has error %v", len(data), err)
	}
	got, err := Decode("shop", data)
	if !errors.Is(err, ErrTooLarge) || !reflect.DeepEqual(got, Closed("shop")) {
		t.Errorf("got %d pods and error %v", len(got.Pods), err)
	}
	set.Pods = set.Pods[:MaxSize/len(`{"name":"pod-00000","uid":"u"},`)-10]
	if data, err = Encode(set); err != nil {
		t.Errorf("a set of %d bytes has error %v", len(data), err)
	}
	if _, err := Encode(Set{Namespace: "shop", Pods: []Pod{{Name: "web"}}}); err == nil {
		t.Error("a set that nodes reject is encoded")
	}
}

// FuzzDecode: whatever is decoded can be encoded again, with the same meaning, and its ACLs have Windows' limits.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(encodedShop))
	for _, set := range []Set{Closed("shop"), {Namespace: "shop", Unlisted: Directions{Egress: true}, Omitted: MaxSize + 1}} {
		data, err := Encode(set)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := Decode("shop", data)
		if err != nil {
			if !reflect.DeepEqual(set, Closed("shop")) {
				t.Fatalf("an error has the set %+v", set)
			}
			return
		}
		again, err := Encode(set)
		if err != nil {
			t.Fatalf("%+v: %v", set, err)
		}
		decoded, err := Decode("shop", again)
		if err != nil {
			t.Fatalf("%s became %s: %v", data, again, err)
		}
		if twice, err := Encode(decoded); err != nil || !bytes.Equal(twice, again) {
			t.Errorf("%s became %s and then %s (%v)", data, again, twice, err)
		}
		for _, p := range append(set.Pods, Pod{Name: "unlisted", UID: "u"}) {
			checkACLs(t, ACLs(set, PodID{p.Name, p.UID}, Facts{}).ACLs)
		}
	})
}
