package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

const (
	old    = "1.0.0-aaaaaaa"
	wanted = "1.1.0-bbbbbbb"
)

func noon() time.Time { return time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) } // a Monday

// host returns a node of the old version that can be upgraded with a drain.
func host(name string, change ...func(*rollout.Host)) rollout.Host {
	h := rollout.Host{
		Name: name, Joined: true, Staged: true, Disruption: v1alpha1.DisruptionDrain, Since: noon().Add(-24 * time.Hour),
		Node: &rollout.Node{Name: name, Ready: true, Version: old, Desired: old},
	}
	for _, c := range change {
		c(&h)
	}
	return h
}

func hosts(n int, change ...func(*rollout.Host)) []rollout.Host {
	var all []rollout.Host
	for i := range n {
		all = append(all, host(fmt.Sprintf("win-%02d", i), change...))
	}
	return all
}

func notReady(h *rollout.Host) { h.Node.Ready, h.Node.NotReadySince = false, noon().Add(-time.Hour) }
func notReadyYet(h *rollout.Host) {
	h.Node.Ready, h.Node.NotReadySince = false, noon().Add(-time.Minute)
}
func silent(h *rollout.Host)   { notReady(h); h.Node.Silent = true }
func unheard(h *rollout.Host)  { notReadyYet(h); h.Node.Silent = true }
func released(h *rollout.Host) { h.Released = true }
func sick(h *rollout.Host) {
	h.Node.Unhealthy, h.Node.SickSince = "kube-proxy dies", noon().Add(-5*time.Minute)
}
func recentlyDrained(h *rollout.Host) { h.Settles = noon().Add(time.Minute) }
func arrived(h *rollout.Host)         { h.Arrived, h.Node, h.MissingSince = true, nil, noon().Add(-time.Hour) }
func cordoned(h *rollout.Host)        { h.Node.Unschedulable = true }
func leaving(h *rollout.Host)         { h.Leaving = true }
func paused(h *rollout.Host)          { h.Paused = true }
func unstaged(h *rollout.Host)        { h.Staged = false }
func upToDate(h *rollout.Host)        { h.Node.Version = wanted }
func restarts(h *rollout.Host)        { h.Disruption = v1alpha1.DisruptionRestart }
func askReboot(h *rollout.Host)       { h.Node.RebootRequested = "asked now" }
func pending(h *rollout.Host) {
	h.Node.RebootPending = "Windows Update"
}
func granted(h *rollout.Host)   { h.Granted = v1alpha1.ActionUpgrade }
func fresh(h *rollout.Host)     { h.Joined, h.Node = false, nil }
func gone(h *rollout.Host)      { h.Node = nil }
func takenOver(h *rollout.Host) { h.Joined, h.AdoptionPending = false, true }
func failedHere(h *rollout.Host) {
	h.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Version: wanted, Message: "kubelet died"}
}
func notDrained(h *rollout.Host) { failedHere(h); h.Failure.Step = v1alpha1.MaintenanceDrain }
func failedOnce(h *rollout.Host) {
	h.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Version: "1.0.5-ccccccc", Message: "kubelet died"}
}

func underWay(h *rollout.Host) {
	h.Node.Unschedulable, h.Node.CordonedFor = true, v1alpha1.ActionUpgrade
	h.UnderWay = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: v1alpha1.MaintenanceDrain, Disruption: v1alpha1.DisruptionDrain}
}

func allow(n int) rollout.Policy {
	return rollout.Policy{Version: wanted, MaxUnavailable: intstr.FromInt32(int32(n))}
}

// told formats a plan: what each host does or waits for.
func describe(p rollout.Plan) string {
	var b strings.Builder
	for i := range 100 {
		name := fmt.Sprintf("win-%02d", i)
		next, some := p.Hosts[name]
		switch {
		case !some:
			continue
		case next.WaitsFor != "":
			fmt.Fprintf(&b, "%s:%s?%s ", name, next.Action, next.WaitsFor)
		default:
			fmt.Fprintf(&b, "%s:%s ", name, next.Action)
		}
	}
	return strings.TrimSpace(b.String())
}

func named(hosts ...rollout.Host) []rollout.Host {
	for i := range hosts {
		hosts[i].Name = fmt.Sprintf("win-%02d", i)
	}
	return hosts
}

func TestDecide(t *testing.T) {
	canary := allow(5)
	canary.Canary = &rollout.Canary{Count: 1, Soak: 10 * time.Minute}
	recently := func(h *rollout.Host) { h.Since = noon().Add(-time.Minute) }
	reboots := allow(1)
	reboots.Reboots = true
	allPaused := allow(1)
	allPaused.Paused = true
	unfit := allow(1)
	unfit.Unfit = "kubelet v1.37.0 is newer than the API server"
	unpublished := allow(2)
	unpublished.Unpublished = true
	percent := func(text string) rollout.Policy {
		p := allow(0)
		p.MaxUnavailable = intstr.FromString(text)
		return p
	}
	for _, test := range []struct {
		name    string
		policy  rollout.Policy
		hosts   []rollout.Host
		orphans []string
		want    string
	}{
		{"as many begin as the budget allows", allow(2), hosts(3), nil, "win-00:Upgrade win-01:Upgrade win-02:Upgrade?Budget"},
		{"a share of the nodes is rounded down", percent("50%"), hosts(3), nil, "win-00:Upgrade win-01:Upgrade?Budget win-02:Upgrade?Budget"},
		{"a share of few nodes is one", percent("10%"), hosts(2), nil, "win-00:Upgrade win-01:Upgrade?Budget"},
		{"a node that is not Ready counts", allow(1), named(host("", upToDate, notReady), host("")), nil, "win-01:Upgrade?Budget"},
		{"a cordoned node counts", allow(1), named(host("", upToDate, cordoned), host("")), nil, "win-01:Upgrade?Budget"},
		{"a node without an instance holds nobody up", allow(1), hosts(1), []string{"other"}, "win-00:Upgrade"},
		{"nor does it raise a share", percent("50%"), hosts(3), []string{"a", "b", "c"}, "win-00:Upgrade win-01:Upgrade?Budget win-02:Upgrade?Budget"},
		{"what has begun counts, and goes on", allow(1), named(host("", underWay), host("")), nil, "win-00:Upgrade win-01:Upgrade?Budget"},
		{"what was granted counts before it is seen to have begun", allow(1), named(host(""), host("", granted)), nil, "win-00:Upgrade?Budget win-01:Upgrade"},
		{"a node that was deleted while something is done with it is out of service", allow(1), named(host("", underWay, gone), host("")), nil,
			"win-00:Upgrade win-01:Upgrade?Budget"},
		{"a host that leaves without a Node holds no place", allow(1), named(host("", underWay, gone, leaving), host("")), nil, "win-00:Leave win-01:Upgrade"},
		{"what is broken comes first", allow(1), named(host(""), host("", notReady)), nil, "win-00:Upgrade?Budget win-01:Upgrade"},
		{"and takes a place", allow(1), named(host("", notReady), host("", notReady)), nil, "win-00:Upgrade win-01:Upgrade?Budget"},
		{"a node is not broken at once", allow(2), named(host("", notReadyYet), host("", unheard)), nil, "win-00:Upgrade?NodeNotReady win-01:Upgrade?NodeNotReady"},
		{"nor is one that has not said since when", allow(1), hosts(1, func(h *rollout.Host) { h.Node.Ready = false }), nil, "win-00:Upgrade?NodeNotReady"},
		{"more silent nodes than may be out of service are not broken, however long", allow(1), named(host("", silent), host("", silent), host("", notReady)), nil,
			"win-00:Upgrade?FleetSilent win-01:Upgrade?FleetSilent win-02:Upgrade?FleetSilent"},
		{"as many silent nodes as may be out of service are", allow(2), named(host("", silent), host("", silent), host("")), nil,
			"win-00:Upgrade win-01:Upgrade win-02:Upgrade?Budget"},
		{"while the fleet is silent nobody is restarted", allow(1), named(host("", silent, upToDate), host("", silent, upToDate), host("", askReboot)), nil, "win-02:Reboot?FleetSilent"},
		{"but what the user removes leaves", allow(1), named(host("", silent, upToDate, leaving), host("", silent, upToDate, leaving)), nil, "win-00:Leave win-01:Leave"},
		{"pods that left a node are given time to start elsewhere", allow(1), named(host("", upToDate, recentlyDrained), host("")), nil, "win-01:Upgrade?Budget"},
		{"which holds up no more than one place", allow(2), named(host("", upToDate, recentlyDrained), host(""), host("")), nil, "win-01:Upgrade win-02:Upgrade?Budget"},
		{"and not the node that they left", allow(1), named(host("", upToDate, recentlyDrained, askReboot), host("")), nil, "win-00:Reboot win-01:Upgrade?Budget"},
		{"of several that others cordoned, one after the other", allow(1), named(host("", cordoned), host("", cordoned)), nil,
			"win-00:Upgrade win-01:Upgrade?Budget"},
		{"what disrupts least comes first", allow(1), named(host(""), host("", restarts)), nil, "win-00:Upgrade?Budget win-01:Upgrade"},
		{"leaving comes before upgrading", allow(1), named(host(""), host("", leaving)), nil, "win-00:Upgrade?Budget win-01:Leave"},
		{"a host that is no node leaves at once", allow(1), named(host("", underWay), host("", fresh, leaving)), nil, "win-00:Upgrade win-01:Leave"},
		{"a node that may come back leaves in its turn", allow(1), named(host("", underWay), host("", unheard, leaving)), nil, "win-00:Upgrade win-01:Leave?NodeNotReady"},
		{"one whose host is let go does not have to", allow(1), named(host("", underWay), host("", unheard, leaving, released)), nil, "win-00:Upgrade win-01:Leave"},
		{"one whose host is let go and that serves does", allow(1), named(host("", underWay), host("", leaving, released)), nil, "win-00:Upgrade win-01:Leave?Budget"},
		{"a dead node leaves without the budget", allow(1), named(host("", underWay), host("", notReady, leaving)), nil, "win-00:Upgrade win-01:Leave"},
		{"who upgrades and is to leave, leaves", allow(1), named(host("", underWay, leaving), host("")), nil, "win-00:Leave win-01:Upgrade?Budget"},
		{"content comes before the version", allow(1), hosts(2, unstaged), nil, "win-00:Stage win-01:Stage"},
		{"nodes at the version need nothing", allow(1), hosts(2, upToDate), nil, ""},
		{"a host that is no node joins whatever the budget", allow(1), named(host("", underWay), host("", fresh)), nil, "win-00:Upgrade win-01:Join"},
		{"a node of another operator is drained in its turn", allow(1), named(host("", takenOver), host("", takenOver)), nil, "win-00:Upgrade win-01:Upgrade?Budget"},
		{"the user's reboot comes before the version", allow(1), hosts(1, askReboot), nil, "win-00:Reboot"},
		{"a reboot that is asked for waits until the version is there", allow(1), hosts(1, underWay, askReboot), nil, "win-00:Upgrade"},
		{"Windows' reboot is not the operator's to decide", allow(1), hosts(1, upToDate, pending), nil, ""},
		{"Windows' reboot where the user allows it", reboots, hosts(2, upToDate, pending), nil, "win-00:Reboot win-01:Reboot?Budget"},
		{"Windows' reboot is awaited until WICD has spoken since the last one", reboots, hosts(1, upToDate, pending, func(h *rollout.Host) { h.Node.BootID = "8" }), nil, ""}, // https://github.com/dsccommunity/xPendingReboot/issues/1
		{"the same causes are no reason for another restart", reboots, hosts(1, upToDate, pending, func(h *rollout.Host) { // https://github.com/chocolatey/choco/issues/1768
			h.LastReboot = &v1alpha1.LastReboot{Causes: "Windows Update; a file"}
		}), nil, ""},
		{"another cause is", reboots, hosts(1, upToDate, pending, func(h *rollout.Host) {
			h.LastReboot = &v1alpha1.LastReboot{Causes: "a file"}
		}), nil, "win-00:Reboot"},
		{"and so is the user", reboots, hosts(1, upToDate, pending, askReboot, func(h *rollout.Host) {
			h.LastReboot = &v1alpha1.LastReboot{Causes: "Windows Update"}
		}), nil, "win-00:Reboot"},
		{"Machines are replaced within the budget", allow(1), hosts(2, upToDate, func(h *rollout.Host) { h.Replace = "it knows no key" }), nil, "win-00:Replace win-01:Replace?Budget"},
		{"all paused", allPaused, hosts(1), nil, "win-00:Upgrade?Paused"},
		{"one paused", allow(1), named(host("", paused), host("")), nil, "win-00:Upgrade?Paused win-01:Upgrade"},
		{"paused, and under way", allPaused, hosts(1, underWay), nil, "win-00:Upgrade"},
		{"a version that does not go with the API server", unfit, hosts(1), nil, "win-00:Upgrade?VersionSkewUnsupported"},
		{"a version that nodes cannot read yet", unpublished, named(host(""), host("", unstaged), host("", underWay)), nil,
			"win-00:Upgrade?Unpublished win-01:Stage win-02:Upgrade"},
		{"a node that came to its version just now is sure of it first", allow(1), named(host("", recently), host("")), nil, "win-00:Upgrade?UpgradeCooldown win-01:Upgrade"},
		{"a version that failed is brought to nobody else", allow(3), named(host(""), host("", failedHere)), nil, "win-00:Upgrade?RolloutStopped win-01:Upgrade?Failed"},
		{"a version that failed where the user holds the host goes on elsewhere", allow(3), named(host(""), host("", failedHere, paused)), nil,
			"win-00:Upgrade win-01:Upgrade?Paused"},
		{"a drain that was given up holds up nobody else", allow(3), named(host(""), host("", notDrained)), nil, "win-00:Upgrade win-01:Upgrade?Failed"},
		{"another version that failed stops nothing", allow(3), named(host(""), host("", failedOnce)), nil, "win-00:Upgrade win-01:Upgrade"},
		{"the first node goes alone", canary, hosts(3), nil, "win-00:Upgrade win-01:Upgrade?Canary win-02:Upgrade?Canary"},
		{"and works for a while", canary, named(host("", upToDate, recently), host("")), nil, "win-01:Upgrade?Canary"},
		{"before the others follow", canary, named(host("", upToDate), host(""), host("")), nil, "win-01:Upgrade win-02:Upgrade"},
		{"a first node whose services do not work has been tried", canary, named(host("", upToDate, sick), host(""), host("")), nil,
			"win-01:Upgrade?Canary win-02:Upgrade?Canary"},
		{"and stops the version when it has not worked for as long as it should have worked", canary, named(host("", upToDate, sick, func(h *rollout.Host) {
			h.Node.SickSince = noon().Add(-11 * time.Minute)
		}), host("")), nil, "win-01:Upgrade?RolloutStopped"},
		{"so does a node that never worked with it, without a canary", allow(5), named(host("", upToDate, sick, func(h *rollout.Host) {
			h.Since, h.Node.SickSince = noon().Add(-19*time.Minute), noon().Add(-11*time.Minute)
		}), host("")), nil, "win-01:Upgrade?RolloutStopped"},
		{"but not one that worked for days", allow(5), named(host("", upToDate, sick, func(h *rollout.Host) {
			h.Node.SickSince = noon().Add(-11 * time.Minute)
		}), host("")), nil, "win-01:Upgrade"},
		{"a first node that worked again for a moment only has not soaked", canary, named(host("", upToDate, func(h *rollout.Host) {
			h.Node.WorksSince = noon().Add(-time.Minute)
		}), host("")), nil, "win-01:Upgrade?Canary"},
		{"a first node that somebody cordons has been tried", canary, named(host("", upToDate, cordoned), host("")), nil, "win-01:Upgrade?Canary"},
		{"one that is silent for a moment, too", canary, named(host("", upToDate, unheard), host("")), nil, "win-01:Upgrade?Canary"},
		{"one that is dead is replaced", canary, named(host("", upToDate, silent), host(""), host("")), nil, "win-01:Upgrade win-02:Upgrade?Canary"},
		{"and so is one whose Node is gone", canary, named(host("", arrived), host(""), host("")), nil, "win-01:Upgrade win-02:Upgrade?Canary"},
		{"once", canary, named(host("", upToDate, silent), host("", arrived), host("")), nil, "win-02:Upgrade?Canary"},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := rollout.Decide(rollout.Fleet{Policy: test.policy, Hosts: test.hosts, Orphans: test.orphans, Now: noon()})
			if got := describe(plan); got != test.want {
				t.Errorf("plan is\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestNodeMessagesAreTruncated uses condition messages that are too long to store, because other hosts' objects repeat them.
func TestNodeMessagesAreTruncated(t *testing.T) {
	long := strings.Repeat("ä", 300_000)
	node := &corev1.Node{}
	for _, kind := range []corev1.NodeConditionType{api.ConditionUpdated, api.ConditionServicesHealthy} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "x", Message: long})
	}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
		Type: api.ConditionNodeRebootRequired, Status: corev1.ConditionTrue, Reason: "x", Message: long,
	})
	node.Annotations = map[string]string{api.AnnotationBootID: long}
	got := rollout.NodeOf(node)
	if got.ReportedBoot != "" {
		t.Errorf("a boot ID of %d bytes is kept", len(got.ReportedBoot))
	}
	node.Annotations[api.AnnotationBootID] = "7"
	if boot := rollout.NodeOf(node).ReportedBoot; boot != "7" {
		t.Errorf("the boot is %q, want 7", boot)
	}
	for name, text := range map[string]string{"unhealthy": got.Unhealthy, "update": got.UpdateFailed, "reboot": got.RebootPending} {
		if text == "" || len(text) > 4096 || !utf8.ValidString(text) {
			t.Errorf("%s: %d bytes are kept (valid UTF-8: %v), want some, and 4096 at most", name, len(text), utf8.ValidString(text))
		}
	}
}

func TestVerify(t *testing.T) {
	upgrade := v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Version: wanted, PreviousVersion: old}
	reboot := v1alpha1.Maintenance{Action: v1alpha1.ActionReboot, BootID: "7", StartedAt: metav1.NewTime(noon())}
	gates := []string{"StorageReady"}
	good := rollout.Node{Ready: true, Version: wanted, Desired: wanted, BootID: "8", ReportedBoot: "8", Kubelet: "v1.36.3"}
	with := func(change func(*rollout.Node)) *rollout.Node { n := good; change(&n); return &n }
	for _, test := range []struct {
		name          string
		m             v1alpha1.Maintenance
		node          *rollout.Node
		gates         []string
		waits, failed string
	}{
		{"works", upgrade, &good, nil, "", ""},
		{"no Node", upgrade, nil, nil, "the Node does not exist", ""},
		{"not there yet", upgrade, with(func(n *rollout.Node) { n.Version = old }), nil, "WICD has not reported version 1.1.0-bbbbbbb yet", ""},
		{"went back", upgrade, with(func(n *rollout.Node) { n.Version, n.UpdateFailed = old, "kubelet died" }), nil, "", "kubelet died"},
		{"not Ready", upgrade, with(func(n *rollout.Node) { n.Ready = false }), nil, "the node is not Ready", ""},
		{"a service dies", upgrade, with(func(n *rollout.Node) { n.Unhealthy = "containerd died" }), nil, "containerd died", ""},
		{"another kubelet", upgrade, with(func(n *rollout.Node) { n.Kubelet = "v1.35.0" }), nil, "the kubelet still reports version v1.35.0, not v1.36.3", ""},
		{"the user's gate is closed", upgrade, &good, gates, "conditions in readinessGates are not True on the Node: StorageReady", ""},
		{"the user's gate is open", upgrade, with(func(n *rollout.Node) { n.True = map[string]bool{"StorageReady": true} }), gates, "", ""},
		{"answers, and has not restarted", reboot, with(func(n *rollout.Node) { n.BootID = "7" }), nil, "the host has not restarted yet", ""},
		{"has restarted", reboot, &good, nil, "", ""},
		{"has restarted, and WICD speaks of the time before", reboot, with(func(n *rollout.Node) { n.ReportedBoot = "7" }), nil, "WICD has not reported since the restart", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			waits, failed := rollout.Verify(test.m, test.node, test.gates, "v1.36.3")
			if waits != test.waits || failed != test.failed {
				t.Errorf("waits for %q, failed with %q; want %q and %q", waits, failed, test.waits, test.failed)
			}
		})
	}
}

func TestSummaryCountsActions(t *testing.T) {
	plan := rollout.Decide(rollout.Fleet{Policy: allow(2), Now: noon(), Orphans: []string{"a", "b", "c", "d", "e", "f", "g"}, Hosts: named(
		host("", upToDate), host("", underWay), host("", failedHere), host(""))})
	s := plan.Summary
	if s.Nodes != 4 || s.AtVersion != 1 || s.OutOfService != 1 || s.MaxUnavailable != 2 || s.Waiting != 2 || s.Orphans != 7 || len(s.Failed) != 1 {
		t.Errorf("summary is %+v", s)
	}
	want := "in progress: 1 Upgrade; waiting: 1 Upgrade (Failed), 1 Upgrade (RolloutStopped); failed on win-02; no WindowsInstance for Node a, b, c, d, e and 2 more"
	if s.Message != want {
		t.Errorf("message is %q, want %q", s.Message, want)
	}
}
