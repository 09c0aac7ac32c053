package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

func rules() []desired.FirewallRule {
	return []desired.FirewallRule{
		{Name: "kubelet", Protocol: desired.TCP, Ports: []uint16{10250}},
		{Name: "VXLAN", Protocol: desired.UDP, Ports: []uint16{4789}},
	}
}

// joinedWithRules returns a host that has joined with firewall rules for its node's services.
func joinedWithRules(t *testing.T, o sim.WindowsOptions) (*sim.Windows, wicdapi.JoinRequest) {
	t.Helper()
	w, c := newWindows(t, o), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Firewall = rules()
	mustJoin(t, w, r)
	return w, r
}

// ourRules returns the enabled rules of the operator's group, by name.
func ourRules(w *sim.Windows) map[string]desired.FirewallRule {
	ours := map[string]desired.FirewallRule{}
	for _, r := range w.Rules() {
		if r.Group == hostapi.FirewallGroup && !r.Disabled {
			ours[r.Name] = r.FirewallRule
		}
	}
	return ours
}

func expectOurRules(t *testing.T, w *sim.Windows, want ...desired.FirewallRule) {
	t.Helper()
	all := map[string]desired.FirewallRule{}
	for _, r := range want {
		all[r.Name] = r
	}
	if diff := cmp.Diff(all, ourRules(w)); diff != "" {
		t.Errorf("our rules (-want +got):\n%s", diff)
	}
}

// journalOf returns a host's journal, one line per entry.
func journalOf(t *testing.T, w *sim.Windows) string {
	t.Helper()
	content, err := w.Disk().Read(journalFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAJoinOpensTheFirewall(t *testing.T) {
	w, r := joinedWithRules(t, sim.WindowsOptions{})
	expectOurRules(t, w, rules()...)
	if again := mustJoin(t, w, r); slices.ContainsFunc(again.Changed, func(c string) bool { return strings.Contains(c, "firewall") }) {
		t.Errorf("the second join changed %q", again.Changed)
	}
	r.Desired.Firewall = r.Desired.Firewall[:1]
	if less := mustJoin(t, w, r); !slices.Contains(less.Changed, `firewall rule "VXLAN" changed`) {
		t.Errorf("one rule less is not told: %q", less.Changed)
	}
	expectOurRules(t, w, rules()[0])
}

func TestAlteredFirewallRulesAreRestored(t *testing.T) {
	w, _ := joinedWithRules(t, sim.WindowsOptions{})
	synctest.Test(t, func(t *testing.T) {
		defer startRun(t, w)()
		time.Sleep(time.Second)
		w.EditRules("VXLAN", func(r *sim.Rule) { r.Disabled = true })
		w.EditRules("kubelet", func(r *sim.Rule) { r.Ports = []uint16{1} })
		time.Sleep(servicesLook)
		expectOurRules(t, w, rules()...)
	})
}

// TestAHostWithoutAFirewallJoins stops the firewall's service, without which nothing is blocked.
func TestAHostWithoutAFirewallJoins(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	w.StopFirewall(true)
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Firewall = rules()
	mustJoin(t, w, r)
	if n := strings.Count(journalOf(t, w), "none: setting firewall rules"); n != 1 {
		t.Errorf("the journal says %d times that there is no firewall, want once:\n%s", n, journalOf(t, w))
	}
	synctest.Test(t, func(t *testing.T) {
		defer startRun(t, w)()
		time.Sleep(10 * servicesLook)
		if n := strings.Count(journalOf(t, w), "none: setting"); n != 1 {
			t.Errorf("while the host works the journal says it again: %d times", n)
		}
		w.StopFirewall(false)
		time.Sleep(servicesLook)
		expectOurRules(t, w, rules()...)
	})
}

// TestFirewallRulesFollowSettings: rules are set before the services start that need them.
func TestFirewallRulesFollowSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolated(t, func(*servers.Cluster) {})
		node := m.request.Desired
		node.Firewall = rules()
		m.publish(t, node)
		m.awaitSettings(t, node)
		expectOurRules(t, m.windows, rules()...)
		if journal := journalOf(t, m.windows); !strings.Contains(journal, `"step":"opening the firewall"`) {
			t.Errorf("no step of the change did it:\n%s", journal)
		}
	})
}

func TestAJoinWhoseRulesAreRefusedFails(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Firewall = rules()
	w.FailNext("rule VXLAN")
	if _, err := newWire(w).join(r); err == nil || !strings.Contains(err.Error(), "firewall") {
		t.Errorf("the join gives %v, want what the firewall said", err)
	}
	mustJoin(t, w, r)
	expectOurRules(t, w, rules()...)
}

// TestLeaveReportsRemainingFirewallRules: the rules take effect when the firewall's service starts.
func TestLeaveReportsRemainingFirewallRules(t *testing.T) {
	w, r := joinedWithRules(t, sim.WindowsOptions{})
	w.StopFirewall(true)
	result := mustLeave(t, w, r.Cluster)
	if len(result.Remains) != 1 || !strings.Contains(result.Remains[0], hostapi.FirewallGroup) {
		t.Errorf("remains %q, want the group of rules", result.Remains)
	}
}
