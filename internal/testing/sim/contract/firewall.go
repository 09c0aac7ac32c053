package contract

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Names of the tests' rules. The fixture removes those of earlier runs.
const (
	FirstRule  = "WICD contract: first"
	SecondRule = "WICD contract: second"
)

// Rule is a rule of the firewall, with the properties that the tests check.
type Rule struct {
	desired.FirewallRule
	// Ours is true for rules of the operator's group.
	Ours bool
	// Works is true if the rule permits what it names, from where it should.
	Works bool
}

// FirewallFixture is one firewall for one test, without managed rules and without rules that have one of the names above.
type FirewallFixture struct {
	Firewall hostapi.Firewall
	// Rules returns the managed rules and those with one of the names above.
	Rules func(t *testing.T) []Rule
	// Give adds a rule of another program.
	Give func(t *testing.T, r desired.FirewallRule)
	// Edits break the managed rule with a name as another program would, each in one way.
	Edits map[string]func(t *testing.T, name string)
	// Stop stops the firewall's service until the test ends; nil if a test must not, and NoStop is the reason.
	Stop   func(t *testing.T)
	NoStop string
}

// Firewall checks the contract of hostapi.Firewall.
func Firewall(t *testing.T, fixture func(t *testing.T) FirewallFixture) {
	run(t, fixture, []test[FirewallFixture]{
		{"SetReplacesRules", setReplacesRules},
		{"BrokenRulesAreRestored", brokenRulesAreRestored},
		{"ForeignRulesStay", foreignRulesStay},
		{"InvalidRulesAreRejected", invalidRulesAreRejected},
		{"StoppedFirewallIsReported", stoppedFirewallIsReported},
	})
}

func firstRule() desired.FirewallRule {
	return desired.FirewallRule{Name: FirstRule, Protocol: desired.TCP, Ports: []uint16{10250}}
}

func secondRule() desired.FirewallRule {
	return desired.FirewallRule{Name: SecondRule, Protocol: desired.UDP, Ports: []uint16{4789, 9898}}
}

func limitedRule() desired.FirewallRule {
	limited := secondRule()
	limited.From = []string{"10.0.0.0/16"}
	return limited
}

// programRule allows traffic to any port on which a program listens.
func programRule() desired.FirewallRule {
	return desired.FirewallRule{Name: SecondRule, Protocol: desired.UDP, Program: `C:\k\versions\0123456789ab\kube-proxy.exe`}
}

func expectRuleChanges(t *testing.T, f FirewallFixture, rules []desired.FirewallRule, want ...string) {
	t.Helper()
	changed, err := f.Firewall.Set(deadline(t), rules)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(changed, want) {
		t.Errorf("changed %q, want %q", changed, want)
	}
}

func expectRules(t *testing.T, f FirewallFixture, want ...Rule) {
	t.Helper()
	order := func(a, b Rule) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol)) }
	got := slices.SortedFunc(slices.Values(f.Rules(t)), order)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func setReplacesRules(t *testing.T, f FirewallFixture) {
	first, second := firstRule(), secondRule()
	expectRuleChanges(t, f, []desired.FirewallRule{second, first}, FirstRule, SecondRule)
	expectRules(t, f, Rule{first, true, true}, Rule{second, true, true})
	expectRuleChanges(t, f, []desired.FirewallRule{first, second})
	second.Ports = []uint16{9898}
	expectRuleChanges(t, f, []desired.FirewallRule{first, second}, SecondRule)
	expectRules(t, f, Rule{first, true, true}, Rule{second, true, true})
	second.From = []string{"10.0.0.0/16", "192.0.2.7/32", "fd00::/64"}
	expectRuleChanges(t, f, []desired.FirewallRule{first, second}, SecondRule)
	expectRules(t, f, Rule{first, true, true}, Rule{second, true, true})
	expectRuleChanges(t, f, []desired.FirewallRule{first, second})
	second.Protocol = desired.TCP
	expectRuleChanges(t, f, []desired.FirewallRule{second}, FirstRule, SecondRule)
	expectRules(t, f, Rule{second, true, true})
	program := programRule()
	expectRuleChanges(t, f, []desired.FirewallRule{program}, SecondRule)
	expectRules(t, f, Rule{program, true, true})
	expectRuleChanges(t, f, []desired.FirewallRule{program})
	program.Program = strings.Replace(program.Program, "0123456789ab", "ba9876543210", 1)
	expectRuleChanges(t, f, []desired.FirewallRule{program}, SecondRule)
	expectRules(t, f, Rule{program, true, true})
	expectRuleChanges(t, f, nil, SecondRule)
	expectRules(t, f)
	expectRuleChanges(t, f, nil)
}

func brokenRulesAreRestored(t *testing.T, f FirewallFixture) {
	for _, second := range []desired.FirewallRule{secondRule(), limitedRule(), programRule()} {
		rules := []desired.FirewallRule{firstRule(), second}
		if _, err := f.Firewall.Set(deadline(t), rules); err != nil {
			t.Fatal(err)
		}
		for what, edit := range f.Edits {
			edit(t, SecondRule)
			changed, err := f.Firewall.Set(deadline(t), rules)
			if err != nil || !slices.Equal(changed, []string{SecondRule}) {
				t.Errorf("%s: Set() = %q, %v, want %q", what, changed, err, SecondRule)
			}
			expectRules(t, f, Rule{firstRule(), true, true}, Rule{second, true, true})
		}
	}
}

func foreignRulesStay(t *testing.T, f FirewallFixture) {
	foreign := firstRule()
	foreign.Protocol = desired.UDP
	f.Give(t, foreign)
	wantForeign := Rule{FirewallRule: foreign, Works: true}
	expectRuleChanges(t, f, []desired.FirewallRule{firstRule()}, FirstRule)
	expectRules(t, f, Rule{firstRule(), true, true}, wantForeign)
	changedRule := firstRule()
	changedRule.Ports = []uint16{1}
	expectRuleChanges(t, f, []desired.FirewallRule{changedRule}, FirstRule)
	expectRules(t, f, Rule{changedRule, true, true}, wantForeign)
	expectRuleChanges(t, f, nil, FirstRule)
	expectRules(t, f, wantForeign)
	expectRuleChanges(t, f, nil)
	expectRules(t, f, wantForeign)
}

// badRules returns lists that a firewall could not store.
func badRules() map[string][]desired.FirewallRule {
	edited := func(edit func(*desired.FirewallRule)) []desired.FirewallRule {
		bad := secondRule()
		edit(&bad)
		return []desired.FirewallRule{firstRule(), bad}
	}
	return map[string][]desired.FirewallRule{
		"no name":        edited(func(r *desired.FirewallRule) { r.Name = "" }),
		"all":            edited(func(r *desired.FirewallRule) { r.Name = "All" }),
		"a bar":          edited(func(r *desired.FirewallRule) { r.Name = "a|b" }),
		"twice":          edited(func(r *desired.FirewallRule) { r.Name = firstRule().Name }),
		"no protocol":    edited(func(r *desired.FirewallRule) { r.Protocol = "" }),
		"other protocol": edited(func(r *desired.FirewallRule) { r.Protocol = "ICMP" }),
		"no port":        edited(func(r *desired.FirewallRule) { r.Ports = nil }),
		"no full path":   edited(func(r *desired.FirewallRule) { r.Program = "kube-proxy.exe" }),
		"a variable":     edited(func(r *desired.FirewallRule) { r.Program = `C:\%TEMP%\kube-proxy.exe` }),
		"no program":     edited(func(r *desired.FirewallRule) { r.Program = `C:\k\x.txt` }),
		"a long path":    edited(func(r *desired.FirewallRule) { r.Program = `C:\` + strings.Repeat("x", 300) + ".exe" }),
		"no range":       edited(func(r *desired.FirewallRule) { r.From = []string{"10.0.0.0/8", "LocalSubnet"} }),
		"all addresses":  edited(func(r *desired.FirewallRule) { r.From = []string{"0.0.0.0/0"} }),
		"two in one":     edited(func(r *desired.FirewallRule) { r.From = []string{"10.0.0.0/8,192.0.2.1"} }),
		"many ranges":    edited(func(r *desired.FirewallRule) { r.From = slices.Repeat([]string{"10.0.0.0/8"}, 81) }),
		"port 0":         edited(func(r *desired.FirewallRule) { r.Ports = []uint16{1, 0} }),
	}
}

func invalidRulesAreRejected(t *testing.T, f FirewallFixture) {
	for what, rules := range badRules() {
		if changed, err := f.Firewall.Set(deadline(t), rules); err == nil || len(changed) > 0 || errors.Is(err, hostapi.ErrNoFirewall) {
			t.Errorf("%s: Set() = %q, %v, want an error", what, changed, err)
		}
	}
	expectRules(t, f)
}

func stoppedFirewallIsReported(t *testing.T, f FirewallFixture) {
	if f.Stop == nil {
		t.Skip(f.NoStop)
	}
	f.Stop(t)
	if changed, err := f.Firewall.Set(deadline(t), []desired.FirewallRule{firstRule()}); !errors.Is(err, hostapi.ErrNoFirewall) || len(changed) > 0 {
		t.Errorf("Set() = %q, %v, want %v", changed, err, hostapi.ErrNoFirewall)
	}
}
