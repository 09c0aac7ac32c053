package podpolicy_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// newMember returns a joined host whose WICD enforces NetworkPolicies, with one pod.
func newMember(t *testing.T) (*daemontest.Member, *node, runningPod) {
	t.Helper()
	m := daemontest.NewFollower(t, daemontest.Options{
		Windows: sim.WindowsOptions{RestartDelay: daemontest.Never, NoQuirks: noQuirk}, Heartbeat: 5 * time.Minute,
		Prepare: func(m *daemontest.Member) { m.Request.Desired.Policies = enforced() },
	})
	n := &node{windows: m.Windows, hns: m.Windows.HNS(), cluster: m.Cluster, policies: enforced()}
	n.network = n.hns.Add(hns.State{Networks: []hns.Network{{Name: networkName, Type: hns.L2Bridge}}}).Networks[0].ID
	return m, n, n.run(t, "shop", "web")
}

// TestNodeReportsItsPolicies by a condition and by metrics.
func TestNodeReportsItsPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, web := newMember(t)
		expect := func(when string, status corev1.ConditionStatus, reason string, parts ...string) {
			t.Helper()
			c := m.Condition(api.ConditionNetworkPoliciesNotApplied)
			if c.Status != status || c.Reason != reason {
				t.Errorf("%s, the condition is %+v, want %s", when, c, reason)
			}
			daemontest.ExpectContains(t, c.Message, parts...)
		}
		n.publish(t, setOf("shop", 80, web))
		time.Sleep(time.Minute)
		expect("at first", "", "")
		content, err := m.Windows.Disk().Read(daemontest.MetricsFile)
		if err != nil {
			t.Fatal(err)
		}
		daemontest.ExpectContains(t, string(content), api.MetricNodePolicyEndpoints+" 1\n", api.MetricNodePolicyEffect+"_count 1\n",
			api.MetricNodePolicyEffect+`_bucket{le="1"} 1`)
		n.publish(t, policyset.Set{Namespace: "shop", Unlisted: policyset.Directions{Egress: true}, Omitted: policyset.MaxSize + 7})
		time.Sleep(time.Minute)
		expect("with too large policies", corev1.ConditionTrue, api.ReasonNetworkPolicyTooLarge, "shop/web", "egress is closed", "1048583 bytes")
		n.publish(t, setOf("shop", 80, web))
		time.Sleep(time.Minute)
		expect("with others", corev1.ConditionFalse, api.ReasonNetworkPoliciesApplied)
		n.publishText(t, "shop", `{"version":2}`)
		time.Sleep(time.Minute)
		expect("with an unknown format", corev1.ConditionTrue, api.ReasonNetworkPoliciesNotApplied, "namespace shop", "version 2")
		if notes := m.Notes(api.ReasonNetworkPoliciesNotApplied); len(notes) != 1 {
			t.Errorf("there are events %q", notes)
		}
		off := m.Request.Desired
		off.Policies = nil
		m.Follow(t, off)
		time.Sleep(time.Minute)
		expect("without policies", corev1.ConditionFalse, api.ReasonNetworkPoliciesApplied, "not enforced")
		n.expectOpen(t, "without policies", web)
	})
}

// TestLongFailuresAreReported: an API server that forbids the sets, and damaged results of libcni. Short ones are not.
func TestLongFailuresAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, web := newMember(t)
		time.Sleep(time.Minute)
		m.Cluster.Forbid("", "GET", strings.TrimSuffix(setsPath, "/"))
		db := n.run(t, "bank", "db")
		n.publish(t, setOf("bank", 5432, db))
		time.Sleep(30 * time.Second)
		n.expectOpen(t, "shortly after the beginning", web, db)
		time.Sleep(time.Minute)
		closed := policyset.Closed("bank")
		if c := m.Condition(api.ConditionNetworkPoliciesNotApplied); c.Reason != api.ReasonNetworkPoliciesNotApplied || !strings.Contains(c.Message, "403") {
			t.Errorf("the condition is %+v", c)
		}
		if len(n.hns.RulesOf(db.endpoint)) != len(policyset.ACLs(closed, policyset.PodID{}, policyset.Facts{Own: web.addresses(), Node: web.addresses()}).ACLs) {
			t.Errorf("pod db has the rules %+v", n.hns.RulesOf(db.endpoint))
		}
		n.expectOpen(t, "in another namespace", web)
		m.Cluster.Permit()
		daemontest.MustWrite(t, m.Windows.Disk(), desired.CNIResults+`\damaged`, "{")
		time.Sleep(2 * time.Minute)
		if c := m.Condition(api.ConditionNetworkPoliciesNotApplied); !strings.Contains(c.Message, "cached results") || strings.Contains(c.Message, "403") {
			t.Errorf("the condition is %+v", c)
		}
	})
}

// TestLeaveRemovesRules of endpoints that remain.
func TestLeaveRemovesRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, web := newMember(t)
		n.publish(t, setOf("shop", 80, web))
		time.Sleep(time.Minute)
		gone := n.run(t, "shop", "gone")
		time.Sleep(time.Minute)
		if len(n.hns.RulesOf(web.endpoint)) == 0 || len(n.hns.RulesOf(gone.endpoint)) == 0 {
			t.Fatal("pods have no rules")
		}
		n.end(t, gone)
		result := daemontest.MustLeave(t, m.Windows, m.Request.Cluster)
		time.Sleep(time.Hour)
		n.expectOpen(t, "after the leave", web)
		if m.Windows.Disk().Exists(state.PolicySets) || len(result.Remains) > 0 {
			t.Errorf("there are files, or the leave reports %q", result.Remains)
		}
	})
}
