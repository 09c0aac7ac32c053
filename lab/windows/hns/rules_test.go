package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCreateCompletesNetworks(t *testing.T) {
	s := newStore(t)
	for name, settings := range map[string]string{
		"plain": `{"Name":"a","Type":"Overlay"}`,
		"with policies": `{"Name":"b","Type":"Overlay","Policies":[{"Type":"VxlanPort","Settings":{"Port":9898}},
			{"Type":"DrMacAddress","Settings":{"Address":"00-15-5D-01-02-03"}}]}`,
		"l2bridge": `{"Name":"c","Type":"L2Bridge"}`,
	} {
		n := mustCreate(t, s, Network, "AAAAAAAA-0000-0000-0001-"+fmt.Sprintf("%012x", name), settings)
		var have struct {
			Policies []struct {
				Type     string
				Settings struct{ Address, ProviderAddress string }
			}
			MacPool struct {
				Ranges []struct{ StartMacAddress, EndMacAddress string }
			}
		}
		if err := n.Into(&have); err != nil {
			t.Fatal(err)
		}
		if len(have.MacPool.Ranges) != 1 || !strings.HasPrefix(have.MacPool.Ranges[0].StartMacAddress, "00-15-5D-") {
			t.Errorf("%s: got pool of MAC addresses %v", name, have.MacPool)
		}
		var policies []string
		for _, p := range have.Policies {
			policies = append(policies, p.Type+" "+p.Settings.ProviderAddress)
			if p.Type == "DrMacAddress" && (p.Settings.Address == "00-15-5D-01-02-03") != (name == "with policies") {
				t.Errorf("%s: got router address %s", name, p.Settings.Address)
			}
		}
		want := map[string][]string{
			"plain": {"DrMacAddress ", "ProviderAddress 10.99.1.2"}, "with policies": {"VxlanPort ", "DrMacAddress ", "ProviderAddress 10.99.1.2"},
		}
		if diff := cmp.Diff(want[name], policies); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestEndpointsGetFreeAddresses(t *testing.T) {
	s := openStore(t, t.TempDir())
	mustCreate(t, s, Network, networkID, `{"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/29","Routes":[{"NextHop":"10.1.0.1"}]}]}]}`)
	const in = `{"HostComputeNetwork":"` + networkID + `"`
	mustCreate(t, s, Endpoint, "EEEEEEEE-0000-0000-0000-0000000000FF", in+`,"IpConfigurations":[{"IpAddress":"10.1.0.3"}]}`)
	macs := map[string]bool{}
	for i, want := range []string{"10.1.0.2", "10.1.0.4", "10.1.0.5", "10.1.0.6"} {
		e := mustCreate(t, s, Endpoint, fmt.Sprintf("EEEEEEEE-0000-0000-0000-%012d", i), in+`}`)
		macs[e.text("MacAddress")] = true
		raw, _ := json.Marshal([]any{e["IpConfigurations"], e["Routes"]})
		if full := `[[{"IpAddress":"` + want + `","PrefixLength":29}],[{"DestinationPrefix":"0.0.0.0/0","NextHop":"10.1.0.1"}]]`; string(raw) != full {
			t.Errorf("endpoint %d: got %s, want %s", i, raw, full)
		}
	}
	if len(macs) != 4 || macs[""] {
		t.Errorf("MAC addresses of four endpoints: got %v, want four different ones", macs)
	}
	if _, err := s.Create(Endpoint, "EEEEEEEE-0000-0000-0000-00000000000F", []byte(in+`}`)); CodeOf(err) != InvalidIP {
		t.Errorf("endpoint on a full network: %v, want %v", err, InvalidIP)
	}
	if err := s.Delete(Endpoint, "EEEEEEEE-0000-0000-0000-000000000001"); err != nil {
		t.Fatal(err)
	}
	if e := mustCreate(t, s, Endpoint, "EEEEEEEE-0000-0000-0000-00000000000F", in+`}`); e.addresses()[0] != "10.1.0.4" {
		t.Errorf("address after one was freed: got %v, want 10.1.0.4", e.addresses())
	}
}

func TestMACAddressesAreUnique(t *testing.T) {
	const id = "EEEEEEEE-0000-0000-0000-000000000009"
	in := `"HostComputeNetwork":"` + networkID + `"`
	first := mustCreate(t, newStore(t), Endpoint, id, `{`+in+`}`).text("MacAddress")
	s := newStore(t)
	mustCreate(t, s, Endpoint, "EEEEEEEE-0000-0000-0000-000000000008", `{`+in+`,"MacAddress":"`+first+`"}`)
	if second := mustCreate(t, s, Endpoint, id, `{`+in+`}`).text("MacAddress"); second == first || second == "" {
		t.Errorf("MAC address of a second endpoint: got %q, which the first one has", second)
	}
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	const (
		id       = "FFFFFFFF-0000-0000-0000-000000000001"
		in       = `"HostComputeNetwork":"` + networkID + `"`
		target   = `"HostComputeEndpoints":["` + endpointID + `"]`
		frontend = `"FrontendVIPs":["10.96.0.1"],"PortMappings":[{"Protocol":6,"ExternalPort":80,"InternalPort":8080}]`
		nodePort = `"PortMappings":[{"Protocol":6,"ExternalPort":30080}]`
		mapped   = `"Policies":[{"Type":"PortMapping","Settings":{"Protocol":6,"ExternalPort":8080}}]`
	)
	create := func(k Kind, settings string) func(*Store) error {
		return func(s *Store) error {
			_, err := s.Create(k, id, []byte(settings))
			return err
		}
	}
	add := func(endpoint, namespace string) func(*Store) error {
		return func(s *Store) error {
			return s.Modify(Namespace, namespace, fmt.Appendf(nil, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":%q}}`, endpoint))
		}
	}
	for name, test := range map[string]struct {
		do   func(*Store) error
		want Code
	}{
		"a duplicate network name":               {create(Network, `{"Name":"pods"}`), NetworkExists},
		"another name":                           {create(Network, `{"Name":"others"}`), 0},
		"an endpoint on a missing network":       {create(Endpoint, `{"HostComputeNetwork":"`+id+`"}`), NetworkNotFound},
		"a duplicate endpoint address":           {create(Endpoint, `{`+in+`,"IpConfigurations":[{"IpAddress":"10.1.0.7"}]}`), ObjectExists},
		"a remote endpoint with a local address": {create(Endpoint, `{"Flags":1,`+in+`,"IpConfigurations":[{"IpAddress":"10.1.0.7"}]}`), 0},
		"a duplicate remote endpoint":            {create(Endpoint, `{"Flags":1,`+in+`,"IpConfigurations":[{"IpAddress":"10.9.0.9"}]}`), ObjectExists},
		"an address of another network":          {create(Endpoint, `{`+in+`,"IpConfigurations":[{"IpAddress":"10.2.0.7"}]}`), InvalidIP},
		"the router's address":                   {create(Endpoint, `{`+in+`,"IpConfigurations":[{"IpAddress":"10.1.0.1"}]}`), InvalidIP},
		"a duplicate host port":                  {create(Endpoint, `{`+in+`,`+mapped+`}`), PortExists},
		"a duplicate load balancer":              {create(LoadBalancer, `{`+frontend+`,`+target+`}`), Exists},
		"its frontend with other endpoints":      {create(LoadBalancer, `{`+frontend+`}`), PortExists},
		"its address with another port":          {create(LoadBalancer, `{`+strings.Replace(frontend, ":80,", ":81,", 1)+`}`), 0},
		"its address with another protocol":      {create(LoadBalancer, `{`+strings.Replace(frontend, ":6,", ":17,", 1)+`}`), 0},
		"another address with its port":          {create(LoadBalancer, `{`+strings.Replace(frontend, "96.0.1", "96.0.2", 1)+`}`), 0},
		"a duplicate node port":                  {create(LoadBalancer, `{`+nodePort+`}`), PortExists},
		"a load balancer without ports":          {create(LoadBalancer, `{`+target+`}`), InvalidPolicy},
		"a load balancer for a missing endpoint": {create(LoadBalancer, `{"HostComputeEndpoints":["`+id+`"],`+nodePort+`}`), EndpointNotFound},
		"invalid JSON":                           {create(Network, `{`), InvalidJSON},
		"deleting a missing object":              {func(s *Store) error { return s.Delete(LoadBalancer, id) }, NotFound},
		"deleting the host's compartment":        {func(s *Store) error { return s.Delete(Namespace, hostDefaultID) }, AccessDenied},
		"an endpoint in two namespaces":          {add(endpointID, hostDefaultID), AlreadyAttached},
		"attaching a missing endpoint":           {add(id, namespaceID), EndpointNotFound},
		"an invalid policy": {func(s *Store) error {
			return s.Modify(Network, networkID, []byte(`{"RequestType":"Add","Settings":{"Policies":["x"]}}`))
		}, InvalidPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			mustCreate(t, s, Endpoint, "EEEEEEEE-0000-0000-0000-000000000002", `{"Flags":1,`+in+`,`+mapped+`,"IpConfigurations":[{"IpAddress":"10.9.0.9"}]}`)
			mustCreate(t, s, LoadBalancer, "BBBBBBBB-0000-0000-0000-000000000001", `{`+frontend+`,`+target+`}`)
			mustCreate(t, s, LoadBalancer, "BBBBBBBB-0000-0000-0000-000000000002", `{`+nodePort+`,`+target+`}`)
			if err := add(endpointID, namespaceID)(s); err != nil {
				t.Fatal(err)
			}
			before, err := s.List("", "")
			for _, k := range []Kind{Network, Endpoint, Namespace, LoadBalancer} {
				more, listing := s.List(k, "")
				before, err = append(before, more...), errors.Join(err, listing)
			}
			if got := test.do(s); CodeOf(got) != test.want || err != nil {
				t.Fatalf("got %v (%v), want %v", got, err, test.want)
			}
			if test.want == 0 {
				return
			}
			var after []Object
			for _, k := range []Kind{Network, Endpoint, Namespace, LoadBalancer} {
				more, err := openStore(t, s.Dir).List(k, "")
				if after = append(after, more...); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("a rejected request changed objects: %s", diff)
			}
		})
	}
}

func TestDeletingNetworkDeletesEndpoints(t *testing.T) {
	s := newStore(t)
	reported := 0
	s.Changed = func() error {
		reported++
		return nil
	}
	if err := s.Delete(Network, networkID); err != nil || reported != 1 {
		t.Fatalf("Changed was called %d times (%v), want once", reported, err)
	}
	if left := names(t, s, Endpoint, ""); left != nil {
		t.Errorf("endpoints remain: %q", left)
	}
}

func TestHostDefaultNamespaceAlwaysExists(t *testing.T) {
	s := openStore(t, t.TempDir())
	o, err := s.Create(Namespace, namespaceID, []byte(`{"Type":"HostDefault"}`))
	if err != nil || o.id() != hostDefaultID {
		t.Errorf("creating HostDefault: got %v (%v), want the existing one", o, err)
	}
	if err := s.Lose(Namespace, Network); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"host"}, names(t, s, Namespace, "")); diff != "" {
		t.Error(diff)
	}
}

// TestStoresShareChangesImmediately changes objects in one store that another has already read.
func TestStoresShareChangesImmediately(t *testing.T) {
	one := newStore(t)
	other := openStore(t, one.Dir)
	if before := names(t, other, Endpoint, ""); len(before) != 1 {
		t.Fatalf("got endpoints %q, want one", before)
	}
	for n := range 3 * compactAt / 1000 { // more than the size at which a new journal starts
		request := fmt.Appendf(nil, `{"RequestType":"Update","Settings":{"Policies":[{"Type":"%d %s"}]}}`, n, strings.Repeat("x", 1000))
		if err := one.Modify(Endpoint, endpointID, request); err != nil {
			t.Fatal(err)
		}
		if n%500 != 0 {
			continue
		}
		o, err := other.Get(Endpoint, endpointID)
		if seen := text(items(o["Policies"])[0], "Type"); err != nil || !strings.HasPrefix(seen, fmt.Sprint(n, " ")) {
			t.Fatalf("after change %d the other store returns %.20s (%v)", n, seen, err)
		}
	}
	if one.known.Journal < 2 || one.known.Size > compactAt {
		t.Errorf("got journal %d with %d bytes, want a compacted one", one.known.Journal, one.known.Size)
	}
	if diff := cmp.Diff(names(t, one, Network, ""), names(t, openStore(t, one.Dir), Network, "")); diff != "" {
		t.Error(diff)
	}
}
