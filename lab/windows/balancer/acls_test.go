package balancer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// endpointWith is an endpoint with ACLs.
func endpointWith(acls ...string) string {
	return `{"ID":"{e}","IpConfigurations":[{"IpAddress":"10.1.0.7"}],"Policies":[` + strings.Join(acls, ",") + `]}`
}

// acl is a rule with these fields in addition to an action, a direction, a rule type and a priority.
func acl(fields string) string {
	return `{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","RuleType":"Switch","Priority":1000` + fields + `}}`
}

func TestACLsBecomeRules(t *testing.T) {
	const host = `{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","RuleType":"Host"}}`
	for name, test := range map[string]struct {
		acls []string
		want map[string][]string // by chain; the others have only a drop
	}{
		"everything":        {[]string{acl(``)}, map[string][]string{"switch-in": {"return"}}},
		"outgoing":          {[]string{acl(`,"Direction":"Out"`)}, map[string][]string{"switch-out": {"return"}}},
		"blocked":           {[]string{acl(`,"Action":"Block"`)}, map[string][]string{"switch-in": {"drop"}}},
		"by the firewall":   {[]string{host}, map[string][]string{"host-in": {"return"}}},
		"by both":           {[]string{acl(`,"RuleType":""`)}, map[string][]string{"host-in": {"return"}, "switch-in": {"return"}}},
		"a protocol":        {[]string{acl(`,"Protocols":"1"`)}, map[string][]string{"switch-in": {"meta l4proto { 1 } return"}}},
		"several protocols": {[]string{acl(`,"Protocols":"17,6,17"`)}, map[string][]string{"switch-in": {"meta l4proto { 6, 17 } return"}}},
		"incoming, all fields": {
			[]string{acl(`,"Protocols":"6","LocalAddresses":"10.1.0.7","RemoteAddresses":"10.2.0.0/16,192.0.2.1","LocalPorts":"80,8000-8100","RemotePorts":"1024-65535"`)},
			map[string][]string{"switch-in": {
				"meta l4proto { 6 } ip daddr { 10.1.0.7/32 } ip saddr { 10.2.0.0/16, 192.0.2.1/32 } th dport { 80, 8000-8100 } th sport { 1024-65535 } return",
			}},
		},
		"outgoing, all fields": {
			[]string{acl(`,"Direction":"Out","Protocols":"17","LocalAddresses":"10.1.0.7","RemoteAddresses":"10.2.0.0/16","LocalPorts":"1024-65535","RemotePorts":"53"`)},
			map[string][]string{"switch-out": {"meta l4proto { 17 } ip saddr { 10.1.0.7/32 } ip daddr { 10.2.0.0/16 } th sport { 1024-65535 } th dport { 53 } return"}},
		},
		"ports without a protocol": {[]string{acl(`,"LocalPorts":"80"`)}, map[string][]string{"switch-in": {"meta l4proto { 6, 17, 132 } th dport { 80 } return"}}},
		"overlapping addresses": {
			[]string{acl(`,"RemoteAddresses":"10.2.3.0/24,10.2.0.0/16,10.2.3.4,10.3.0.0/16,10.2.0.0/16"`)},
			map[string][]string{"switch-in": {"ip saddr { 10.2.0.0/16, 10.3.0.0/16 } return"}},
		},
		"overlapping ports": {
			[]string{acl(`,"Protocols":"6","LocalPorts":"90-100,80-85,86,95-99,100-101,65535,80"`)},
			map[string][]string{"switch-in": {"meta l4proto { 6 } th dport { 80-86, 90-101, 65535 } return"}},
		},
		"all addresses by a prefix": {[]string{acl(`,"RemoteAddresses":"0.0.0.0/0"`)}, nil},
		"all and one":               {[]string{acl(`,"RemoteAddresses":"0.0.0.0/0,10.2.0.7"`)}, map[string][]string{"switch-in": {"ip saddr { 10.2.0.7/32 } return"}}},
		"IPv6":                      {[]string{acl(`,"RemoteAddresses":"fd00::/64"`)}, nil},
		"the order of priorities": {
			[]string{acl(`,"Priority":3000`), acl(`,"Priority":200,"Protocols":"6"`), acl(`,"Priority":3000,"Action":"Block","Protocols":"17"`)},
			map[string][]string{"switch-in": {"meta l4proto { 6 } return", "meta l4proto { 17 } drop", "return"}},
		},
	} {
		tables := Filters(objects(t, endpointWith(test.acls...)))
		text := tables["acl-E"]
		if len(tables) != 1 || text == "" {
			t.Errorf("%s: tables are %v", name, tables)
		}
		for _, chain := range []string{"host-in", "host-out", "switch-in", "switch-out"} {
			want := append(test.want[chain], "drop")
			if diff := cmp.Diff(want, rulesOf(text, chain)); diff != "" {
				t.Errorf("%s: chain %s (-want +got):\n%s", name, chain, diff)
			}
		}
		if packets := rulesOf(text, "packets"); packets[0] != "ct state established,related accept" || len(packets) != 5 {
			t.Errorf("%s: packets meet %q", name, packets)
		}
	}
}

func TestAPriorityBelow100ClosesTheEndpoint(t *testing.T) {
	for name, test := range map[string]struct {
		acls   []string
		closes bool
	}{
		"of the switch":   {[]string{acl(``), acl(`,"Priority":99,"Action":"Block","RemoteAddresses":"203.0.113.1"`)}, true},
		"of both":         {[]string{acl(`,"RuleType":"","Priority":99`)}, true},
		"of the firewall": {[]string{acl(``), acl(`,"RuleType":"Host","Priority":99`)}, false},
		"100":             {[]string{acl(`,"Priority":100`)}, false},
	} {
		text := Filters(objects(t, endpointWith(test.acls...)))["acl-E"]
		if got := !strings.Contains(text, "established") && !strings.Contains(text, "return"); got != test.closes {
			t.Errorf("%s: it closes the endpoint: %t, want %t\n%s", name, got, test.closes, text)
		}
	}
}

func TestOnlyLocalEndpointsWithACLsAreFiltered(t *testing.T) {
	rule := `,"Policies":[` + acl(``) + `]}`
	tables := Filters(objects(t,
		`{"ID":"none","IpConfigurations":[{"IpAddress":"10.1.0.2"}],"Policies":[{"Type":"OutBoundNAT","Settings":{}}]}`,
		`{"ID":"remote","Flags":1,"IpConfigurations":[{"IpAddress":"10.1.0.3"}]`+rule,
		`{"ID":"v6","IpConfigurations":[{"IpAddress":"fd00::7"}]`+rule,
		`{"ID":"no-address"`+rule,
		`{"ID":"two","IpConfigurations":[{"IpAddress":"10.1.0.4"},{"IpAddress":"fd00::4"},{"IpAddress":"10.1.0.5"}]`+rule))
	text := tables["acl-TWO"]
	if len(tables) != 1 || strings.Count(text, "{ 10.1.0.4, 10.1.0.5 } jump") != 4 {
		t.Errorf("tables are %v", tables)
	}
}

func TestOnlyDifferentTablesChange(t *testing.T) {
	one, other := endpointWith(acl(``)), strings.Replace(endpointWith(acl(``)), "{e}", "F", 1)
	table := func(id string) string { return "table ip acl-" + id + "\ndelete table ip acl-" + id + "\n" }
	for name, test := range map[string]struct {
		applied, wanted []string
		want            []string // the parts of the script
	}{
		"nothing":   {nil, nil, nil},
		"the same":  {[]string{one}, []string{one}, nil},
		"the first": {nil, []string{one}, []string{table("E") + "table ip acl-E {"}},
		"another":   {[]string{one}, []string{one, other}, []string{table("F") + "table ip acl-F {"}},
		"different": {[]string{one, other}, []string{endpointWith(acl(`,"Priority":2000,"Protocols":"6"`)), other}, []string{table("E") + "table ip acl-E {", "l4proto { 6 }"}},
		"one less":  {[]string{one, other}, []string{other}, []string{table("E")}},
		"instead":   {[]string{one}, []string{other}, []string{table("E") + table("F") + "table ip acl-F {"}},
	} {
		script := Changes(Filters(objects(t, test.applied...)), Filters(objects(t, test.wanted...)))
		if (script == "") != (test.want == nil) {
			t.Errorf("%s: the script is %q", name, script)
		}
		for _, part := range test.want {
			if !strings.Contains(script, part) {
				t.Errorf("%s: the script lacks %q:\n%s", name, part, script)
			}
		}
		if name == "another" && strings.Contains(script, "acl-E") || name == "one less" && script != table("E") {
			t.Errorf("%s: the script changes more:\n%s", name, script)
		}
	}
}
