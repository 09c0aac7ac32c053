package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	networkID   = "AAAAAAAA-0000-0000-0000-000000000001"
	endpointID  = "EEEEEEEE-0000-0000-0000-000000000001"
	namespaceID = "DDDDDDDD-0000-0000-0000-000000000001"
)

func mustCreate(t *testing.T, s *Store, k Kind, id, settings string) Object {
	t.Helper()
	o, err := s.Create(k, id, []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// openStore opens the store as a process of the host.
func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s := &Store{Dir: dir, Address: func() string { return "10.99.1.2" }}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// newStore returns a store with a network with an endpoint, and a namespace.
func newStore(t *testing.T) *Store {
	t.Helper()
	s := openStore(t, t.TempDir())
	mustCreate(t, s, Network, networkID, `{"Name":"pods","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/16","Routes":[{"NextHop":"10.1.0.1"}]}]}]}`)
	mustCreate(t, s, Endpoint, endpointID, `{"Name":"one","HostComputeNetwork":"`+networkID+`","IpConfigurations":[{"IpAddress":"10.1.0.7"}]}`)
	mustCreate(t, s, Namespace, namespaceID, `{"Type":"Host"}`)
	return s
}

func names(t *testing.T, s *Store, k Kind, query string) []string {
	t.Helper()
	found, err := s.List(k, query)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, o := range found {
		name := o.text("Name")
		if o.text("Type") == "HostDefault" {
			name = "host"
		}
		list = append(list, name)
	}
	return list
}

func TestListFiltersByFields(t *testing.T) {
	s := newStore(t)
	mustCreate(t, s, Endpoint, "EEEEEEEE-0000-0000-0000-000000000002", `{"Name":"two","HostComputeNetwork":"`+networkID+`"}`)
	for query, want := range map[string][]string{
		"":                                {"one", "two"},
		`{"SchemaVersion":{"Major":2}}`:   {"one", "two"},
		`{"Filter":"{\"Name\":\"two\"}"}`: {"two"},
		`{"Filter":"{\"ID\":\"eeeeeeee-0000-0000-0000-000000000001\"}"}`:           {"one"},
		`{"Filter":"{\"Name\":\"three\"}"}`:                                        nil,
		`{"Filter":"{\"VirtualNetwork\":\"` + strings.ToLower(networkID) + `\"}"}`: {"one", "two"},
		`{"Filter":"{\"VirtualNetwork\":\"` + endpointID + `\"}"}`:                 nil,
	} {
		if diff := cmp.Diff(want, names(t, s, Endpoint, query)); diff != "" {
			t.Errorf("query %s: %s", query, diff)
		}
	}
	if _, err := s.List(Endpoint, `{"Filter":"no JSON"}`); !errors.Is(err, InvalidJSON) {
		t.Errorf("invalid filter: error %v, want %v", err, InvalidJSON)
	}
}

func TestNamespacesAreCompartments(t *testing.T) {
	s := newStore(t)
	first, err := s.Get(Namespace, namespaceID)
	second := mustCreate(t, s, Namespace, "DDDDDDDD-0000-0000-0000-000000000002", `{}`)
	if err != nil || first["NamespaceId"] != 2.0 || second["NamespaceId"] != 3.0 {
		t.Errorf("compartments: got %v and %v, want 2 and 3 (%v)", first["NamespaceId"], second["NamespaceId"], err)
	}
}

func TestNamespacesListTheirEndpoints(t *testing.T) {
	request := func(what, kind, id string) []byte {
		return fmt.Appendf(nil, `{"ResourceType":%q,"RequestType":%q,"Settings":{"%sId":%q}}`, kind, what, kind, id)
	}
	resource := func(kind, id string) any {
		return map[string]any{"Type": kind, "Data": map[string]any{"ID": id}}
	}
	both := []any{resource("Container", "c1"), resource("Endpoint", endpointID)}
	for name, test := range map[string]struct {
		then func(*Store) error
		want []any
		in   string // the endpoint's namespace
	}{
		"added":       {func(*Store) error { return nil }, both, namespaceID},
		"added twice": {func(s *Store) error { return s.Modify(Namespace, namespaceID, request("Add", "Endpoint", endpointID)) }, both, namespaceID},
		"removed": {func(s *Store) error {
			return s.Modify(Namespace, namespaceID, request("Remove", "Endpoint", endpointID))
		}, both[:1], ""},
		"deleted": {func(s *Store) error { return s.Delete(Endpoint, endpointID) }, both[:1], ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			for _, r := range [][]byte{request("Add", "Container", "c1"), request("Add", "Endpoint", endpointID)} {
				if err := s.Modify(Namespace, namespaceID, r); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.then(s); err != nil {
				t.Fatal(err)
			}
			namespace, err := s.Get(Namespace, namespaceID)
			if diff := cmp.Diff(test.want, namespace["Resources"]); diff != "" || err != nil {
				t.Errorf("resources: %s (%v)", diff, err)
			}
			if endpoint, err := s.Get(Endpoint, endpointID); err == nil && endpoint.text("HostComputeNamespace") != test.in {
				t.Errorf("namespace of the endpoint: got %q, want %q", endpoint.text("HostComputeNamespace"), test.in)
			}
		})
	}
}

func TestModifyChangesPolicies(t *testing.T) {
	s := newStore(t)
	for _, step := range []struct{ request, policies string }{
		{`{"RequestType":"Add","Settings":{"Policies":[{"Type":"A"},{"Type":"B"}]}}`, `[{"Type":"A"},{"Type":"B"}]`},
		{`{"RequestType":"Remove","Settings":{"Policies":[{"Type":"A"}]}}`, `[{"Type":"B"}]`},
		{`{"RequestType":"Update","Settings":{"Policies":[{"Type":"C"}]}}`, `[{"Type":"C"}]`},
	} {
		if err := s.Modify(Endpoint, endpointID, []byte(step.request)); err != nil {
			t.Fatal(err)
		}
		o, err := s.Get(Endpoint, endpointID)
		raw, _ := json.Marshal(o["Policies"])
		if err != nil || string(raw) != step.policies {
			t.Errorf("policies after %s: got %s (%v), want %s", step.request, raw, err, step.policies)
		}
	}
}

func TestModifyReplacesLoadBalancer(t *testing.T) {
	s := newStore(t)
	const id = "BBBBBBBB-0000-0000-0000-000000000001"
	mustCreate(t, s, LoadBalancer, id, `{"FrontendVIPs":["10.96.0.1"],"PortMappings":[{"Protocol":6,"ExternalPort":80}]}`)
	if err := s.Modify(LoadBalancer, id, []byte(`{"FrontendVIPs":["10.96.0.2"],"PortMappings":[{"Protocol":6,"ExternalPort":80}]}`)); err != nil {
		t.Fatal(err)
	}
	again := `{"FrontendVIPs":["10.96.0.2"],"PortMappings":[{"Protocol":6,"ExternalPort":80}],"HostComputeEndpoints":["` + endpointID + `"]}`
	if err := s.Modify(LoadBalancer, id, []byte(again)); err != nil { // no conflict with its own ports
		t.Fatal(err)
	}
	document, err := s.Properties(LoadBalancer, id)
	want := `{"FrontendVIPs":["10.96.0.2"],"HostComputeEndpoints":["` + endpointID + `"],"ID":"` + id + `","PortMappings":[{"ExternalPort":80,"Protocol":6}]}`
	if document != want || err != nil {
		t.Errorf("load balancer: got %s (%v), want %s", document, err, want)
	}
	mustCreate(t, s, LoadBalancer, "BBBBBBBB-0000-0000-0000-000000000002", // the former port is free
		`{"FrontendVIPs":["10.96.0.1"],"PortMappings":[{"Protocol":6,"ExternalPort":80}]}`)
}

func TestForgetKeepsPersistentNetworks(t *testing.T) {
	s := newStore(t)
	mustCreate(t, s, Network, "AAAAAAAA-0000-0000-0000-000000000002", `{"Name":"temporary","Flags":8}`)
	mustCreate(t, s, LoadBalancer, "BBBBBBBB-0000-0000-0000-000000000001", `{"PortMappings":[{}]}`)
	if err := s.Forget(); err != nil {
		t.Fatal(err)
	}
	for k, want := range map[Kind][]string{Network: {"pods"}, Endpoint: nil, Namespace: {"host"}, LoadBalancer: nil} {
		if diff := cmp.Diff(want, names(t, s, k, "")); diff != "" {
			t.Errorf("%s: %s", k, diff)
		}
	}
}

func TestAddressesExcludeRemoteEndpoints(t *testing.T) {
	s := newStore(t)
	var reported []map[string][]string
	s.Changed = func() error {
		now, err := s.Addresses() // Changed is called without the lock
		reported = append(reported, now)
		return err
	}
	const in = `"HostComputeNetwork":"` + networkID + `"`
	mustCreate(t, s, Endpoint, "EEEEEEEE-0000-0000-0000-000000000002", `{"Flags":1,`+in+`,"IpConfigurations":[{"IpAddress":"10.1.9.9"}]}`)
	mustCreate(t, s, Endpoint, "EEEEEEEE-0000-0000-0000-000000000003", `{`+in+`,"IpConfigurations":[{"IpAddress":"10.1.0.8"}]}`)
	attach := fmt.Appendf(nil, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":%q}}`, endpointID)
	if err := errors.Join(s.Modify(Namespace, namespaceID, attach), s.Delete(Endpoint, endpointID)); err != nil {
		t.Fatal(err)
	}
	want := []map[string][]string{{"": {"10.1.0.7", "10.1.0.8"}}, {"": {"10.1.0.8"}, namespaceID: {"10.1.0.7"}}, {"": {"10.1.0.8"}}}
	if diff := cmp.Diff(want, reported); diff != "" {
		t.Error(diff)
	}
}

func TestConcurrentWritersGetDifferentCompartments(t *testing.T) {
	dir := newStore(t).Dir
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			s := openStore(t, dir)
			if _, err := s.Create(Namespace, fmt.Sprintf("DDDDDDDD-0000-0000-0001-%012d", n), []byte(`{}`)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found, err := openStore(t, dir).List(Namespace, "")
	var numbers []int
	for _, o := range found {
		number, _ := o["NamespaceId"].(float64)
		numbers = append(numbers, int(number))
	}
	slices.Sort(numbers)
	if len(slices.Compact(numbers)) != 22 || err != nil {
		t.Errorf("compartments of 22 namespaces: got %v (%v), want different ones", numbers, err)
	}
}
