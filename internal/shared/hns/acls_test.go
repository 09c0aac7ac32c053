package hns

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// web returns a rule that uses all fields.
func web() ACL {
	return ACL{
		Action: Allow, Direction: In, Protocol: TCP, Remote: prefixes("10.1.0.0/16", "10.2.0.7/32"),
		LocalPorts: []PortRange{{80, 80}, {8000, 8100}}, RemotePorts: []PortRange{{1024, 65535}}, Priority: 1000,
	}
}

func TestOnlyRulesThatWindowsAppliesAsWrittenAreAccepted(t *testing.T) {
	edit := func(change func(a *ACL)) []ACL {
		a := web()
		change(&a)
		return []ACL{a}
	}
	other := func(change func(a *ACL)) []ACL { return append([]ACL{web()}, edit(change)...) }
	for name, test := range map[string]struct {
		acls []ACL
		want string // of the error; empty if it is accepted
	}{
		"none":                      {nil, ""},
		"all fields":                {[]ACL{web()}, ""},
		"nothing but what must be":  {[]ACL{{Action: Block, Direction: Out, Priority: 65500}}, ""},
		"the first priority":        {edit(func(a *ACL) { a.Priority = 100 }), ""},
		"a lower one":               {edit(func(a *ACL) { a.Priority = 99 }), "rule 0: "},
		"none at all":               {edit(func(a *ACL) { a.Priority = 0 }), "priority 0 is not between 100 and 65500"},
		"a greater one":             {edit(func(a *ACL) { a.Priority = 65501 }), "priority 65501"},
		"no action":                 {edit(func(a *ACL) { a.Action = "" }), `action ""`},
		"the action of tiers":       {edit(func(a *ACL) { a.Action = "Pass" }), `action "Pass"`},
		"no direction":              {edit(func(a *ACL) { a.Direction = "" }), `direction ""`},
		"ports of UDP":              {edit(func(a *ACL) { a.Protocol = UDP }), ""},
		"ports of SCTP":             {edit(func(a *ACL) { a.Protocol = SCTP }), ""},
		"ports of any protocol":     {edit(func(a *ACL) { a.Protocol = AnyProtocol }), "protocol 0 has no ports"},
		"remote ports of ICMP":      {edit(func(a *ACL) { a.Protocol, a.LocalPorts = 1, nil }), "protocol 1 has no ports"},
		"port 0":                    {edit(func(a *ACL) { a.LocalPorts[1].First = 0 }), "ports 0-8100"},
		"a range of ports reversed": {edit(func(a *ACL) { a.RemotePorts[0] = PortRange{2, 1} }), "ports 2-1"},
		"all addresses":             {edit(func(a *ACL) { a.Remote = prefixes("0.0.0.0/0") }), "does not match every address"},
		"IPv6":                      {edit(func(a *ACL) { a.Remote = prefixes("fd00::/64") }), "not IPv4"},
		"IPv4 in IPv6":              {edit(func(a *ACL) { a.Remote = prefixes("::ffff:10.0.0.1/128") }), "not IPv4"},
		"no address":                {edit(func(a *ACL) { a.Remote[1] = netip.Prefix{} }), "not IPv4"},
		"an address in its range":   {edit(func(a *ACL) { a.Remote = prefixes("10.1.0.1/16") }), "not the first of its range, 10.1.0.0/16"},
		"as many addresses as fit":  {edit(func(a *ACL) { a.Remote = slices.Repeat(a.Remote, 2000) }), ""},
		"more":                      {edit(func(a *ACL) { a.Remote = slices.Repeat(a.Remote, 2001) }), "4002 entries, more than 4000"},
		"more ports":                {edit(func(a *ACL) { a.LocalPorts = slices.Repeat(a.LocalPorts, 2001) }), "4002 entries"},
		"another program's":         {other(func(a *ACL) { *a = ACL{Foreign: true} }), "rule 1: "},
		"a priority twice":          {other(func(a *ACL) { a.Protocol = UDP }), ""},
		"with both actions":         {other(func(a *ACL) { a.Action = Block }), "priority 1000 of direction In has both actions"},
		"in both directions":        {other(func(a *ACL) { a.Action, a.Direction = Block, Out }), ""},
	} {
		err := CheckACLs(test.acls)
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func TestRulesAreEqualInAnyOrder(t *testing.T) {
	edited := func(change func(a *ACL)) []ACL {
		a := web()
		change(&a)
		return []ACL{a}
	}
	deny := ACL{Action: Block, Direction: In, Priority: 65500}
	for name, test := range map[string]struct {
		a, b []ACL
		want bool
	}{
		"none":                        {nil, []ACL{}, true},
		"none and one":                {nil, []ACL{web()}, false},
		"the order of rules":          {[]ACL{web(), deny}, []ACL{deny, web()}, true},
		"one twice":                   {[]ACL{web(), deny, web()}, []ACL{deny, web()}, true},
		"the order of addresses":      {[]ACL{web()}, edited(func(a *ACL) { slices.Reverse(a.Remote) }), true},
		"an address twice":            {[]ACL{web()}, edited(func(a *ACL) { a.Remote = append(a.Remote, a.Remote[0]) }), true},
		"the order of ports":          {[]ACL{web()}, edited(func(a *ACL) { slices.Reverse(a.LocalPorts) }), true},
		"an empty list":               {[]ACL{deny}, []ACL{{Action: Block, Direction: In, Priority: 65500, Remote: []netip.Prefix{}}}, true},
		"another action":              {[]ACL{web()}, edited(func(a *ACL) { a.Action = Block }), false},
		"another direction":           {[]ACL{web()}, edited(func(a *ACL) { a.Direction = Out }), false},
		"another protocol":            {[]ACL{web()}, edited(func(a *ACL) { a.Protocol = UDP }), false},
		"another priority":            {[]ACL{web()}, edited(func(a *ACL) { a.Priority++ }), false},
		"another address":             {[]ACL{web()}, edited(func(a *ACL) { a.Remote = a.Remote[:1] }), false},
		"another prefix length":       {[]ACL{web()}, edited(func(a *ACL) { a.Remote = prefixes("10.1.0.0/17", "10.2.0.7/32") }), false},
		"another port":                {[]ACL{web()}, edited(func(a *ACL) { a.LocalPorts[1].Last++ }), false},
		"ports of the other side":     {[]ACL{web()}, edited(func(a *ACL) { a.LocalPorts, a.RemotePorts = a.RemotePorts, a.LocalPorts }), false},
		"another program's":           {[]ACL{web(), {Foreign: true}}, []ACL{web(), {Foreign: true}}, false},
		"another program's in one":    {[]ACL{web()}, []ACL{web(), {Foreign: true}}, false},
		"another program's and empty": {[]ACL{{Foreign: true}}, nil, false},
	} {
		if got, reverse := SameACLs(test.a, test.b), SameACLs(test.b, test.a); got != test.want || reverse != test.want {
			t.Errorf("%s: %t, and %t the other way round, want %t", name, got, reverse, test.want)
		}
	}
}

// TestComparingChangesNothing compares rules whose lists are not sorted.
func TestComparingChangesNothing(t *testing.T) {
	a := web()
	slices.Reverse(a.LocalPorts)
	SameACLs([]ACL{a}, []ACL{web()})
	if a.LocalPorts[0].First != 8000 {
		t.Errorf("the ports are now %v", a.LocalPorts)
	}
}
