package configure_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func rules() []desired.FirewallRule {
	return []desired.FirewallRule{
		{Name: "kubelet", Protocol: desired.TCP, Ports: []uint16{10250}},
		{Name: "VXLAN", Protocol: desired.UDP, Ports: []uint16{4789}},
	}
}

func withRules(r *wicdapi.JoinRequest) { r.Desired.Firewall = rules() }

// expectOurRules checks the enabled rules of the operator's group.
func expectOurRules(t *testing.T, w *sim.Windows, want ...desired.FirewallRule) {
	t.Helper()
	var managed []desired.FirewallRule
	for _, r := range w.Rules() {
		if r.Group == hostapi.FirewallGroup && !r.Disabled {
			managed = append(managed, r.FirewallRule)
		}
	}
	byName := cmpopts.SortSlices(func(a, b desired.FirewallRule) bool { return a.Name < b.Name })
	if diff := cmp.Diff(want, managed, byName, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("managed rules (-want +got):\n%s", diff)
	}
}

func TestJoinOpensFirewall(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{}, withRules)
	expectOurRules(t, w, rules()...)
	if again := daemontest.MustJoin(t, w, r); slices.ContainsFunc(again.Changed, func(c string) bool { return strings.Contains(c, "firewall") }) {
		t.Errorf("the second join changed %q", again.Changed)
	}
	r.Desired.Firewall = r.Desired.Firewall[:1]
	if less := daemontest.MustJoin(t, w, r); !slices.Contains(less.Changed, `firewall rule "VXLAN" changed`) {
		t.Errorf("a removed rule is not reported: %q", less.Changed)
	}
	expectOurRules(t, w, rules()[0])
}

func TestAlteredFirewallRulesAreRestored(t *testing.T) {
	w, _ := daemontest.NewNode(t, sim.WindowsOptions{}, withRules)
	synctest.Test(t, func(t *testing.T) {
		defer daemontest.StartRun(t, w.Host())()
		time.Sleep(time.Second)
		w.EditRules("VXLAN", func(r *sim.Rule) { r.Disabled = true })
		w.EditRules("kubelet", func(r *sim.Rule) { r.Ports = []uint16{1} })
		time.Sleep(daemontest.AfterServiceCheck)
		expectOurRules(t, w, rules()...)
	})
}

// TestHostWithoutFirewallJoins stops the firewall's service, without which nothing is blocked.
func TestHostWithoutFirewallJoins(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	w.StopFirewall(true)
	withRules(&r)
	daemontest.MustJoin(t, w, r)
	if n := strings.Count(daemontest.Journal(t, w), "none: setting firewall rules"); n != 1 {
		t.Errorf("the journal records %d times that there is no firewall, want once:\n%s", n, daemontest.Journal(t, w))
	}
	synctest.Test(t, func(t *testing.T) {
		defer daemontest.StartRun(t, w.Host())()
		time.Sleep(10 * daemontest.AfterServiceCheck)
		if n := strings.Count(daemontest.Journal(t, w), "none: setting"); n != 1 {
			t.Errorf("while the host works, the journal records it again: %d times", n)
		}
		w.StopFirewall(false)
		time.Sleep(daemontest.AfterServiceCheck)
		expectOurRules(t, w, rules()...)
	})
}

// TestFirewallRulesFollowSettings: rules are set before the services start that need them.
func TestFirewallRulesFollowSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		node := m.Request.Desired
		node.Firewall = rules()
		m.Follow(t, node)
		expectOurRules(t, m.Windows, rules()...)
		if journal := daemontest.Journal(t, m.Windows); !strings.Contains(journal, `"step":"opening the firewall"`) {
			t.Errorf("no step of the change is responsible:\n%s", journal)
		}
	})
}

func TestJoinFailsWhenFirewallRejectsRules(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	withRules(&r)
	w.FailNext("rule VXLAN")
	if _, err := daemontest.NewWire(w).Join(r); err == nil || !strings.Contains(err.Error(), "firewall") {
		t.Errorf("the join returned %v, want the error of the firewall", err)
	}
	daemontest.MustJoin(t, w, r)
	expectOurRules(t, w, rules()...)
}

// TestLeaveReportsRemainingFirewallRules: the rules take effect when the firewall's service starts.
func TestLeaveReportsRemainingFirewallRules(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{}, withRules)
	w.StopFirewall(true)
	result := daemontest.MustLeave(t, w, r.Cluster)
	if len(result.Remains) != 1 || !strings.Contains(result.Remains[0], hostapi.FirewallGroup) {
		t.Errorf("remains %q, want the group of rules", result.Remains)
	}
}
