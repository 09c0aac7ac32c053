package sim

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Rule is a rule of the firewall.
type Rule struct {
	desired.FirewallRule
	// Group is the group of the rule; hostapi.FirewallGroup for managed rules.
	Group string
	// Disabled rules have no effect.
	Disabled bool
}

// firewall is Windows' firewall.
type firewall struct{ boot *boot }

// Set implements hostapi.Firewall. Each rule is a separate change.
func (f firewall) Set(ctx context.Context, rules []desired.FirewallRule) (changed []string, err error) {
	if err := hostapi.CheckRules(rules); err != nil {
		return nil, err
	}
	w := f.boot.w
	if err := f.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	if w.firewallStopped {
		return nil, fmt.Errorf("%w: its service is stopped", hostapi.ErrNoFirewall)
	}
	names := map[string]bool{}
	keep := map[int]bool{}
	for _, r := range rules {
		got := Rule{FirewallRule: r, Group: hostapi.FirewallGroup}
		at := slices.IndexFunc(w.rules, func(other Rule) bool { return reflect.DeepEqual(got, other) })
		if at < 0 {
			if err := f.boot.changeLocked("rule " + r.Name); err != nil {
				return slices.Sorted(maps.Keys(names)), err
			}
			at, names[r.Name] = len(w.rules), true
			got.Ports, got.From = slices.Clone(got.Ports), slices.Clone(got.From)
			w.rules = append(w.rules, got)
		}
		keep[at] = true
	}
	for at := len(w.rules) - 1; at >= 0; at-- {
		r := w.rules[at]
		if keep[at] || r.Group != hostapi.FirewallGroup {
			continue
		}
		if err := f.boot.changeLocked("rule " + r.Name); err != nil {
			return slices.Sorted(maps.Keys(names)), err
		}
		w.rules = slices.Delete(w.rules, at, at+1)
		names[r.Name] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// Rules returns the rules of the firewall, by name.
func (w *Windows) Rules() []Rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(slices.Values(w.rules), func(a, b Rule) int {
		return strings.Compare(a.Name+"\x00"+a.Group, b.Name+"\x00"+b.Group)
	})
}

// AddRule adds a rule, like another program.
func (w *Windows) AddRule(r Rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
}

// EditRules changes all managed rules with a name, like another program.
func (w *Windows) EditRules(name string, edit func(*Rule)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at := range w.rules {
		if r := &w.rules[at]; r.Name == name && r.Group == hostapi.FirewallGroup {
			edit(r)
		}
	}
}

// StopFirewall stops the service of the firewall, or starts it: while it is stopped, nothing is filtered.
func (w *Windows) StopFirewall(stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.firewallStopped = stopped
}
