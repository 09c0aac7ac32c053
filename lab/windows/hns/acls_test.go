package hns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// aclSettings is an ACL with these fields in addition to an action, a direction, a rule type and a priority.
func aclSettings(fields string) string {
	return `{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","RuleType":"Switch","Priority":1000` + fields + `}}`
}

// request modifies the policies of an endpoint.
func request(kind string, policies ...string) []byte {
	return fmt.Appendf(nil, `{"ResourceType":"Policy","RequestType":%q,"Settings":{"Policies":[%s]}}`, kind, strings.Join(policies, ","))
}

func mustModify(t *testing.T, s *Store, kind string, policies ...string) {
	t.Helper()
	if err := s.Modify(Endpoint, endpointID, request(kind, policies...)); err != nil {
		t.Fatal(err)
	}
}

func mustHaveACLs(t *testing.T, s *Store, id string) []ACL {
	t.Helper()
	o, err := s.Get(Endpoint, id)
	if err != nil {
		t.Fatal(err)
	}
	acls, err := o.ACLs()
	if err != nil {
		t.Fatal(err)
	}
	return acls
}

func TestACLsAreParsed(t *testing.T) {
	prefixes := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	for name, test := range map[string]struct {
		policy string
		want   ACL
	}{
		"plain": {aclSettings(``), ACL{Allow: true, In: true, Switch: true, Priority: 1000}},
		"all fields": {
			aclSettings(`,"Protocols":"6,17","LocalAddresses":"10.1.0.7","RemoteAddresses":"10.2.3.4/16,192.0.2.1","LocalPorts":"80,8000-8100","RemotePorts":"1024-65535"`),
			ACL{
				Allow: true, In: true, Switch: true, Priority: 1000, Protocols: []uint8{6, 17}, Local: prefixes("10.1.0.7/32"),
				Remote: prefixes("10.2.0.0/16", "192.0.2.1/32"), LocalPorts: []PortRange{{80, 80}, {8000, 8100}}, RemotePorts: []PortRange{{1024, 65535}},
			},
		},
		"any protocol":     {aclSettings(`,"Protocols":"256"`), ACL{Allow: true, In: true, Switch: true, Priority: 1000}},
		"empty selectors":  {aclSettings(`,"Protocols":"","RemoteAddresses":"","LocalPorts":""`), ACL{Allow: true, In: true, Switch: true, Priority: 1000}},
		"the other way":    {`{"Type":"ACL","Settings":{"Action":"Block","Direction":"Out","RuleType":"Switch","Priority":65500}}`, ACL{Switch: true, Priority: 65500}},
		"of the firewall":  {`{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","RuleType":"Host"}}`, ACL{Allow: true, In: true, Host: true}},
		"of both layers":   {`{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","Priority":65500}}`, ACL{Allow: true, In: true, Switch: true, Host: true, Priority: 65500}},
		"a low priority":   {aclSettings(`,"Priority":99`), ACL{Allow: true, In: true, Switch: true, Priority: 99}},
		"IPv6":             {aclSettings(`,"RemoteAddresses":"fd00::/64"`), ACL{Allow: true, In: true, Switch: true, Priority: 1000, Remote: prefixes("fd00::/64")}},
		"with another one": {`{"Type":"OutBoundNAT","Settings":{}},` + aclSettings(``), ACL{Allow: true, In: true, Switch: true, Priority: 1000}},
	} {
		s := newStore(t)
		mustModify(t, s, "Add", test.policy)
		compare := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
		if diff := cmp.Diff([]ACL{test.want}, mustHaveACLs(t, s, endpointID), compare); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWindowsRefusesACLs(t *testing.T) {
	for name, test := range map[string]struct {
		policy string
		want   Code
	}{
		"no settings":           {`{"Type":"ACL"}`, InvalidJSON},
		"settings of no object": {`{"Type":"ACL","Settings":"x"}`, InvalidJSON},
		"no action":             {`{"Type":"ACL","Settings":{"Direction":"In","RuleType":"Switch","Priority":1000}}`, InvalidPolicy},
		"the action of tiers":   {aclSettings(`,"Action":"Pass"`), InvalidPolicy},
		"no direction":          {`{"Type":"ACL","Settings":{"Action":"Allow","RuleType":"Switch","Priority":1000}}`, InvalidPolicy},
		"another direction":     {aclSettings(`,"Direction":"Inbound"`), InvalidPolicy},
		"another rule type":     {aclSettings(`,"RuleType":"VFP"`), InvalidPolicy},
		"no priority":           {`{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","RuleType":"Switch"}}`, InvalidPolicy},
		"no priority for both":  {`{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In"}}`, InvalidPolicy},
		"too large a priority":  {aclSettings(`,"Priority":65501`), InvalidPolicy},
		"a priority of no size": {aclSettings(`,"Priority":65536`), InvalidJSON},
		"addresses by a word":   {aclSettings(`,"LocalAddresses":"Any"`), InvalidPolicy},
		"an empty entry":        {aclSettings(`,"RemoteAddresses":"10.1.0.7,"`), InvalidPolicy},
		"a range of addresses":  {aclSettings(`,"RemoteAddresses":"10.1.0.1-10.1.0.9"`), InvalidPolicy},
		"a list of JSON":        {aclSettings(`,"RemoteAddresses":["10.1.0.7"]`), InvalidJSON},
		"a protocol by name":    {aclSettings(`,"Protocols":"TCP"`), InvalidPolicy},
		"a protocol too large":  {aclSettings(`,"Protocols":"257"`), InvalidPolicy},
		"any protocol of two":   {aclSettings(`,"Protocols":"6,256"`), InvalidPolicy},
		"a port by name":        {aclSettings(`,"LocalPorts":"http"`), InvalidPolicy},
		"a port too large":      {aclSettings(`,"RemotePorts":"65536"`), InvalidPolicy},
		"a range reversed":      {aclSettings(`,"RemotePorts":"81-80"`), InvalidPolicy},
		"a valid one before":    {aclSettings(``) + `,` + aclSettings(`,"LocalPorts":"-"`), InvalidPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			mustModify(t, s, "Add", aclSettings(`,"Priority":2000`))
			for _, kind := range []string{"Add", "Update"} {
				if err := s.Modify(Endpoint, endpointID, request(kind, test.policy)); CodeOf(err) != test.want {
					t.Errorf("%s: %v, want %v", kind, err, test.want)
				}
			}
			_, err := s.Create(Endpoint, "EEEEEEEE-0000-0000-0000-000000000009", []byte(`{"HostComputeNetwork":"`+networkID+`","Policies":[`+test.policy+`]}`))
			if CodeOf(err) != test.want {
				t.Errorf("creating an endpoint: %v, want %v", err, test.want)
			}
			if acls := mustHaveACLs(t, openStore(t, s.Dir), endpointID); len(acls) != 1 || acls[0].Priority != 2000 || len(names(t, s, Endpoint, "")) != 1 {
				t.Errorf("afterwards, the endpoint has ACLs %+v, and there are endpoints %q", acls, names(t, s, Endpoint, ""))
			}
		})
	}
}

func TestRemoteEndpointsHaveNoACLs(t *testing.T) {
	s := newStore(t)
	const id = "EEEEEEEE-0000-0000-0000-000000000009"
	settings := `{"Flags":1,"HostComputeNetwork":"` + networkID + `","Policies":[` + aclSettings(``) + `]}`
	if _, err := s.Create(Endpoint, id, []byte(settings)); CodeOf(err) != InvalidRemote {
		t.Errorf("creating one: %v", err)
	}
	mustCreate(t, s, Endpoint, id, `{"Flags":1,"HostComputeNetwork":"`+networkID+`"}`)
	if err := s.Modify(Endpoint, id, request("Add", aclSettings(``))); CodeOf(err) != InvalidRemote {
		t.Errorf("modifying one: %v", err)
	}
}

func TestACLsApplyByPriority(t *testing.T) {
	s := newStore(t)
	mustModify(t, s, "Add", aclSettings(`,"Priority":3000,"LocalPorts":"1"`), aclSettings(`,"Priority":200,"LocalPorts":"2"`),
		aclSettings(`,"Priority":1000,"LocalPorts":"3"`), aclSettings(`,"Priority":1000,"Action":"Block","LocalPorts":"4"`), aclSettings(`,"Priority":1000,"LocalPorts":"5"`))
	var order []uint16
	for _, a := range mustHaveACLs(t, s, endpointID) {
		order = append(order, a.LocalPorts[0].First)
	}
	if diff := cmp.Diff([]uint16{2, 4, 3, 5, 1}, order); diff != "" {
		t.Errorf("rules by port: %s", diff)
	}
}

func TestACLsAreAddedReplacedAndRemoved(t *testing.T) {
	const nat = `{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.0.0.0/8"]}}`
	one, two := aclSettings(``), aclSettings(`,"Priority":2000`)
	returned := func(policy string) string { // in the form in which it must be removed
		return strings.TrimSuffix(policy, "}}") + `,"Protocols":"","LocalAddresses":"","RemoteAddresses":"","LocalPorts":"","RemotePorts":"","Scope":0}}`
	}
	for name, test := range map[string]struct {
		quirks       Quirks
		kind         string
		policies     []string
		want         []string // types
		wantPriority int      // of the first ACL
	}{
		"added":                   {kind: "Add", policies: []string{two}, want: []string{"OutBoundNAT", "ACL", "ACL"}, wantPriority: 1000},
		"replaced":                {kind: "Update", policies: []string{two}, want: []string{"ACL"}, wantPriority: 2000},
		"replaced with the rest":  {kind: "Update", policies: []string{nat, two}, want: []string{"OutBoundNAT", "ACL"}, wantPriority: 2000},
		"replaced by none":        {kind: "Update", policies: []string{nat}, want: []string{"OutBoundNAT"}},
		"replaced by type":        {quirks: Quirks{UpdatesByType: true}, kind: "Update", policies: []string{two}, want: []string{"OutBoundNAT", "ACL"}, wantPriority: 2000},
		"none, by type":           {quirks: Quirks{UpdatesByType: true}, kind: "Update", policies: []string{nat}, want: []string{"ACL", "OutBoundNAT"}, wantPriority: 1000},
		"removed":                 {kind: "Remove", policies: []string{returned(one)}, want: []string{"OutBoundNAT"}},
		"removed as written":      {kind: "Remove", policies: []string{one}, want: []string{"OutBoundNAT", "ACL"}, wantPriority: 1000},
		"another one is removed":  {kind: "Remove", policies: []string{returned(two)}, want: []string{"OutBoundNAT", "ACL"}, wantPriority: 1000},
		"replaced, with no types": {quirks: Quirks{UpdatesByType: true}, kind: "Update", want: []string{"OutBoundNAT", "ACL"}, wantPriority: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			mustModify(t, s, "Add", nat, one)
			mustSet(t, s, test.quirks)
			mustModify(t, s, test.kind, test.policies...)
			o, err := s.Get(Endpoint, endpointID)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range items(o["Policies"]) {
				got = append(got, text(p, "Type"))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("policies: %s", diff)
			}
			if acls := mustHaveACLs(t, s, endpointID); test.wantPriority != 0 && acls[0].Priority != test.wantPriority {
				t.Errorf("ACLs are %+v, want priority %d first", acls, test.wantPriority)
			}
		})
	}
}

func TestBothGenerationsReturnACLs(t *testing.T) {
	s := newStore(t)
	mustModify(t, s, "Add", aclSettings(`,"Protocols":"6","LocalPorts":"80"`))
	const selectors = `"LocalAddresses":"","LocalPorts":"80","Priority":1000,"Protocols":"6","RemoteAddresses":"","RemotePorts":"","RuleType":"Switch","Scope":0`
	second, err := s.Properties(Endpoint, endpointID)
	if want := `[{"Settings":{"Action":"Allow","Direction":"In",` + selectors + `},"Type":"ACL"}]`; err != nil || !strings.Contains(second, want) {
		t.Errorf("the second one returns %s (%v), want %s", second, err, want)
	}
	first, err := s.Call("GET", "/endpoints/"+endpointID)
	if want := `[{"Action":"Allow","Direction":"In",` + selectors + `,"Type":"ACL"}]`; err != nil || !strings.Contains(first, want) {
		t.Errorf("the first one returns %s (%v), want %s", first, err, want)
	}
}

// TestACLsAreReported expects one report for each change of ACLs, before the call returns.
func TestACLsAreReported(t *testing.T) {
	s := newStore(t)
	reported := 0
	s.Changed = func() error {
		reported++
		_ = mustHaveACLs(t, openStore(t, s.Dir), endpointID)
		return nil
	}
	expect := func(what string, want int) {
		t.Helper()
		if reported != want {
			t.Errorf("after %s, Changed was called %d times, want %d", what, reported, want)
		}
	}
	mustModify(t, s, "Add", aclSettings(``))
	expect("the first", 1)
	mustModify(t, s, "Update", aclSettings(``))
	expect("the same", 1)
	mustModify(t, s, "Update", aclSettings(`,"Priority":2000`))
	expect("another priority", 2)
	mustModify(t, s, "Add", `{"Type":"OutBoundNAT","Settings":{}}`)
	expect("another policy", 2)
	mustModify(t, s, "Update")
	expect("none", 3)
}
