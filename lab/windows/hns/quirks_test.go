package hns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// overlaySettings are the settings of a network of the hybrid overlay.
const overlaySettings = `{"Name":"base","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"100.64.0.0/30",
	"Policies":[{"Type":"VSID","Settings":{"IsolationId":4098}}]}]}],"Policies":[
	{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"Ethernet"}},{"Type":"VxlanPort","Settings":{"Port":9898}}]}`

const overlayID = "BBBBBBBB-0000-0000-0000-000000000001"

// mustSet sets the quirks of a store from another process.
func mustSet(t *testing.T, s *Store, q Quirks) {
	t.Helper()
	if err := openStore(t, s.Dir).SetQuirks(q); err != nil {
		t.Fatal(err)
	}
}

func TestQuirksChangeReturnedNetworks(t *testing.T) {
	for name, test := range map[string]struct {
		quirks  Quirks
		removed string // from the networks that both generations return
		found   string
	}{
		"all":          {Quirks{}, "vEthernet", "9898"},
		"VNI":          {Quirks{OmitsVNI: true}, "4098", "9898"},
		"VXLAN port":   {Quirks{OmitsVXLANPort: true}, "9898", "4098"},
		"adapter":      {Quirks{OmitsAdapter: true, RenamesAdapter: true}, "Ethernet", "9898"},
		"virtual name": {Quirks{RenamesAdapter: true}, `"Ethernet"`, "vEthernet (Ethernet)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			mustCreate(t, s, Network, overlayID, overlaySettings)
			mustSet(t, s, test.quirks)
			second, err := s.Properties(Network, overlayID)
			if err != nil {
				t.Fatal(err)
			}
			one, err := s.Call("GET", "/networks/"+overlayID)
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.Call("GET", "/networks/")
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{second, one, all} {
				if strings.Contains(text, test.removed) || !strings.Contains(text, test.found) {
					t.Errorf("got %s; want %s and no %s", text, test.found, test.removed)
				}
			}
			if o, err := s.Get(Network, overlayID); err != nil || o.adapter() != "Ethernet" {
				t.Errorf("adapter of the stored network: got %q (%v), want Ethernet", o.adapter(), err)
			}
		})
	}
}

func TestQuirksCheckAdapters(t *testing.T) {
	settings := func(name, adapter string) string {
		return fmt.Sprintf(`{"Name":%q,"Type":"Overlay","Policies":[{"Type":"InterfaceConstraint","Settings":{"InterfaceAlias":%q}}]}`, name, adapter)
	}
	for name, test := range map[string]struct {
		quirks   Quirks
		settings string
		want     Code
	}{
		"no quirk":         {Quirks{}, settings("new", "Ethernet"), 0},
		"adapter in use":   {Quirks{Adapters: []string{"Ethernet", "Ethernet 2"}}, settings("new", "ethernet"), AdapterNotFound},
		"free adapter":     {Quirks{Adapters: []string{"Ethernet", "Ethernet 2"}}, settings("new", "Ethernet 2"), 0},
		"missing adapter":  {Quirks{Adapters: []string{"Ethernet"}}, settings("new", "Ethernet 3"), AdapterNotFound},
		"no adapter named": {Quirks{Adapters: []string{"Ethernet"}}, settings("new", ""), 0},
		"adapter required": {Quirks{NeedsAdapter: true}, settings("new", ""), AdapterNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			mustCreate(t, s, Network, overlayID, overlaySettings)
			mustSet(t, s, test.quirks)
			if _, err := s.Create(Network, "BBBBBBBB-0000-0000-0000-000000000002", []byte(test.settings)); CodeOf(err) != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestQuirkRejectsHostRoute(t *testing.T) {
	s := newStore(t)
	mustSet(t, s, Quirks{RefusesHostRoute: true})
	add := `{"RequestType":"Add","Settings":{"Policies":[{"Type":%q,"Settings":{}}]}}`
	if err := s.Modify(Network, networkID, fmt.Appendf(nil, add, "RemoteSubnetRoute")); err != nil {
		t.Errorf("adding another policy: %v", err)
	}
	if err := s.Modify(Network, networkID, fmt.Appendf(nil, add, "HostRoute")); CodeOf(err) != Unsupported {
		t.Errorf("got %v, want %v", err, Unsupported)
	}
}

func TestListsAreIncompleteAfterTheServiceStarts(t *testing.T) {
	s := newStore(t)
	mustCreate(t, s, Network, overlayID, overlaySettings)
	mustCreate(t, s, Endpoint, "EEEEEEEE-0000-0000-0000-000000000002", `{"Name":"two","HostComputeNetwork":"`+networkID+`"}`)
	stop, err := s.Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	count := func() (counts [4]int) {
		for i, k := range []Kind{Network, Endpoint} {
			ids, err := s.IDs(k, "")
			if err != nil {
				t.Fatal(err)
			}
			answer, err := s.Call("GET", "/"+strings.ToLower(string(k))+"s/")
			if err != nil {
				t.Fatal(err)
			}
			counts[2*i], counts[2*i+1] = len(ids), strings.Count(answer, `"ID":`)
		}
		return counts
	}
	for late, want := range map[time.Duration][4]int{time.Hour: {1, 1, 2, 1}, time.Nanosecond: {2, 2, 2, 2}} {
		mustSet(t, s, Quirks{ListsLate: late})
		if diff := cmp.Diff(want, count()); diff != "" {
			t.Errorf("ListsLate %v: networks and endpoints in the lists of both generations: %s", late, diff)
		}
	}
}

func TestQuirksOfTheFirstGeneration(t *testing.T) {
	s := newStore(t)
	mustCreate(t, s, LoadBalancer, "1", `{"HostComputeEndpoints":["`+endpointID+`"],"FrontendVIPs":["10.96.0.1"],"PortMappings":[{"ExternalPort":80}]}`)
	mustSet(t, s, Quirks{OmitsAddresses: true, OmitsVIPs: true})
	for path, removed := range map[string]string{"/endpoints/": "10.1.0.7", "/endpoints/" + endpointID: "10.1.0.7", "/policylists/": "10.96.0.1"} {
		if answer, err := s.Call("GET", path); err != nil || strings.Contains(answer, removed) || !strings.Contains(answer, endpointID) {
			t.Errorf("%s: got %s (%v), want the objects without %s", path, answer, err, removed)
		}
	}
	mustSet(t, s, Quirks{ListsStale: true})
	if err := s.Delete(Endpoint, endpointID); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Call("GET", "/endpoints/")
	if err != nil || !strings.Contains(answer, `"IPAddress":"10.1.0.7","IsRemoteEndpoint":true`) || strings.Contains(answer, endpointID) {
		t.Errorf("first generation after the endpoint was removed: got %s (%v), want a stale endpoint", answer, err)
	}
	if left := names(t, s, Endpoint, ""); left != nil {
		t.Errorf("second generation after the endpoint was removed: got %q, want none", left)
	}
}

func TestLoadBalancersRunOutOfPorts(t *testing.T) {
	s := newStore(t)
	mustSet(t, s, Quirks{Ports: 2*63 + 1})
	for i, want := range []Code{0, 0, PortExists} {
		settings := fmt.Appendf(nil, `{"FrontendVIPs":["10.96.0.%d"],"PortMappings":[{"ExternalPort":80}]}`, i)
		if _, err := s.Create(LoadBalancer, fmt.Sprint(i), settings); CodeOf(err) != want {
			t.Errorf("load balancer %d: %v, want %v", i, err, want)
		}
	}
}

func TestQuirksSurviveBootsAndCompaction(t *testing.T) {
	s := newStore(t)
	mustSet(t, s, Quirks{Adapters: []string{"Ethernet"}, ListsLate: 90 * time.Second})
	if err := s.Forget(); err != nil {
		t.Fatal(err)
	}
	got, _, err := openStore(t, s.Dir).quirksNow()
	if diff := cmp.Diff(Quirks{Adapters: []string{"Ethernet"}, ListsLate: 90 * time.Second}, got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	s.known.apply(entry{Kind: quirks, ID: quirksID})
	if diff := cmp.Diff(Quirks{}, s.known.quirks); diff != "" {
		t.Error(diff)
	}
}
