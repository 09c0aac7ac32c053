package win

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestFirewallKeepsTheContract(t *testing.T) {
	mustBeWine(t) // on a real Windows the managed rules belong to a node
	mustHaveFirewall(t)
	host := mustHost(t)
	contract.Firewall(t, func(t *testing.T) contract.FirewallFixture {
		mustRunInstead(t, host.Services, firewallService)
		forgetRules(t)
		t.Cleanup(func() { forgetRules(t) })
		edit := func(property string, value any) func(*testing.T, string) {
			return func(t *testing.T, name string) {
				withRule(t, name, func(o comObject) error { return o.put(property, value) })
			}
		}
		return contract.FirewallFixture{
			Firewall: host.Firewall,
			Rules:    allRules,
			Give:     giveRule,
			Edits: map[string]func(*testing.T, string){
				"disabled":      edit("Enabled", false),
				"blocks":        edit("Action", 0),
				"outbound":      edit("Direction", 2),
				"one profile":   edit("Profiles", 1),
				"one client":    edit("RemoteAddresses", "192.0.2.1"),
				"two halves":    edit("RemoteAddresses", "0.0.0.0/1,128.0.0.0/1"),
				"tunnels":       edit("EdgeTraversal", true),
				"one address":   edit("LocalAddresses", "192.0.2.2"),
				"a program":     edit("ApplicationName", `C:\k\kubelet.exe`),
				"a service":     edit("ServiceName", "kubelet"),
				"other ports":   edit("LocalPorts", "1"),
				"wireless only": edit("InterfaceTypes", "Wireless"),
			},
			Stop: func(t *testing.T) {
				if err := host.Services.Stop(t.Context(), firewallService); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// TestMissingFirewallIsReported: without a filter, no rules are needed, and there are none to remove.
func TestMissingFirewallIsReported(t *testing.T) {
	if _, err := isRunning(firewallService); !errors.Is(err, hostapi.ErrNotFound) {
		t.Skipf("this Windows has the firewall's service (%v)", err)
	}
	rules := []desired.FirewallRule{{Name: contract.FirstRule, Protocol: desired.TCP, Ports: []uint16{22}}}
	if changed, err := (firewall{}).Set(t.Context(), rules); !errors.Is(err, hostapi.ErrNoFirewall) || len(changed) > 0 {
		t.Errorf("Set() = %q, %v, want %v", changed, err, hostapi.ErrNoFirewall)
	}
	if changed, err := (firewall{}).Set(t.Context(), nil); err != nil || len(changed) > 0 {
		t.Errorf("Set() without rules = %q, %v", changed, err)
	}
}

// mustHaveFirewall skips the test if the firewall's objects have no effect, as on Wine.
func mustHaveFirewall(t *testing.T) {
	t.Helper()
	mustWithPolicy(t, func(p policy) error {
		if err := p.effect(); err != nil {
			t.Skipf("the firewall's objects have no effect (lab/windows/shims/hnetcfg.c): %v", err)
		}
		return nil
	})
}

// mustRunInstead creates and starts a Windows service that Wine does not have, until the test ends.
func mustRunInstead(t *testing.T, s hostapi.Services, name string) {
	t.Helper()
	removeAfter(t, s, name)
	_, err := s.Put(t.Context(), desired.Service{Name: name, Description: "stands in for that of Windows", Command: command(t, "runs")})
	if err := errors.Join(err, s.Start(t.Context(), name)); err != nil {
		t.Fatal(err)
	}
}

func mustWithPolicy(t *testing.T, use func(policy) error) {
	t.Helper()
	if err := withPolicy(use); err != nil {
		t.Fatal(err)
	}
}

// eachRule calls use with the managed rules and the contract's.
func eachRule(t *testing.T, use func(p policy, o comObject) error) {
	t.Helper()
	mustWithPolicy(t, func(p policy) error {
		var rules []comObject
		err := oleutil.ForEach(p.rules.IDispatch, func(v *ole.VARIANT) error {
			o := comObject{v.ToIDispatch()} // released below
			rules = append(rules, o)
			return nil
		})
		for _, o := range rules {
			group, errGroup := o.get("Grouping")
			name, errName := o.get("Name")
			err = errors.Join(err, errGroup, errName)
			isOfTest := name == contract.FirstRule || name == contract.SecondRule || group == hostapi.FirewallGroup
			if err == nil && isOfTest {
				err = use(p, o)
			}
			o.Release()
		}
		return err
	})
}

func forgetRules(t *testing.T) {
	t.Helper()
	eachRule(t, func(p policy, o comObject) error {
		_, err := p.remove(o)
		return err
	})
}

func withRule(t *testing.T, name string, edit func(comObject) error) {
	t.Helper()
	eachRule(t, func(_ policy, o comObject) error {
		if got, err := o.get("Name"); err != nil || got != name {
			return err
		}
		return edit(o)
	})
}

func giveRule(t *testing.T, r desired.FirewallRule) {
	t.Helper()
	mustWithPolicy(t, func(p policy) error {
		if err := p.add(r); err != nil {
			return err
		}
		return nil
	})
	withRule(t, r.Name, func(o comObject) error { return o.put("Grouping", "somebody's") })
}

func allRules(t *testing.T) (rules []contract.Rule) {
	t.Helper()
	eachRule(t, func(_ policy, o comObject) error {
		group, _ := o.get("Grouping")
		name, _ := o.get("Name")
		protocol, _ := o.get("Protocol")
		ports, err := o.get("LocalPorts")
		if err != nil {
			return err
		}
		r := desired.FirewallRule{Name: name.(string), Protocol: desired.TCP}
		if protocol == int32(windows.IPPROTO_UDP) {
			r.Protocol = desired.UDP
		}
		program, err := o.get("ApplicationName")
		if err != nil {
			return err
		}
		r.Program, _ = program.(string)
		for port := range strings.SplitSeq(ports.(string), ",") {
			if port == anything {
				continue
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return err
			}
			r.Ports = append(r.Ports, uint16(n))
		}
		from, err := o.get("RemoteAddresses")
		if err != nil {
			return err
		}
		if from != anything {
			r.From = strings.Split(from.(string), ",")
		}
		works := !slices.ContainsFunc(properties(r), func(p property) bool {
			got, err := o.get(p.name)
			return p.name != "Grouping" && (err != nil || !p.has(got, r))
		})
		rules = append(rules, contract.Rule{FirewallRule: r, Ours: group == hostapi.FirewallGroup, Works: works})
		return nil
	})
	return rules
}
