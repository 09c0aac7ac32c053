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
func notReadyBriefly(h *rollout.Host) {
	h.Node.Ready, h.Node.NotReadySince = false, noon().Add(-time.Minute)
}
func silent(h *rollout.Host)        { notReady(h); h.Node.Silent = true }
func silentBriefly(h *rollout.Host) { notReadyBriefly(h); h.Node.Silent = true }
func released(h *rollout.Host)      { h.Released = true }
func unhealthy(h *rollout.Host) {
	h.Node.Unhealthy, h.Node.UnhealthySince = "kube-proxy dies", noon().Add(-5*time.Minute)
}
func recentlyDrained(h *rollout.Host) { h.SettlesAt = noon().Add(time.Minute) }
func arrived(h *rollout.Host)         { h.Arrived, h.Node, h.MissingSince = true, nil, noon().Add(-time.Hour) }
func cordoned(h *rollout.Host)        { h.Node.Unschedulable = true }
func leaving(h *rollout.Host)         { h.Leaving = true }
func paused(h *rollout.Host)          { h.Paused = true }
func unstaged(h *rollout.Host)        { h.Staged = false }
func upToDate(h *rollout.Host)        { h.Node.Version = wanted }
func restarts(h *rollout.Host)        { h.Disruption = v1alpha1.DisruptionRestart }
func requestReboot(h *rollout.Host)   { h.Node.RebootRequested = "requested now" }
func pending(h *rollout.Host) {
	h.Node.RebootPending = "Windows Update"
}
func granted(h *rollout.Host)     { h.Granted = v1alpha1.ActionUpgrade }
func fresh(h *rollout.Host)       { h.Joined, h.Node = false, nil }
func withoutNode(h *rollout.Host) { h.Node = nil }
func takenOver(h *rollout.Host)   { h.Joined, h.AdoptionPending = false, true }
func failedHere(h *rollout.Host) {
	h.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Version: wanted, Message: "kubelet died"}
}
func notDrained(h *rollout.Host) { failedHere(h); h.Failure.Step = v1alpha1.MaintenanceDrain }
func failedOnce(h *rollout.Host) {
	h.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Version: "1.0.5-ccccccc", Message: "kubelet died"}
}

func inMaintenance(h *rollout.Host) {
	h.Node.Unschedulable, h.Node.CordonedFor = true, v1alpha1.ActionUpgrade
	h.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: v1alpha1.MaintenanceDrain, Disruption: v1alpha1.DisruptionDrain}
}

func allow(n int) rollout.Policy {
	return rollout.Policy{Version: wanted, MaxUnavailable: intstr.FromInt32(int32(n))}
}

// describe formats a plan: what each host does or waits for.
func describe(p rollout.Plan) string {
	var b strings.Builder
	for i := range 100 {
		name := fmt.Sprintf("win-%02d", i)
		next, ok := p.Hosts[name]
		switch {
		case !ok:
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
	unsupportedVersion := allow(1)
	unsupportedVersion.VersionFault = "kubelet v1.37.0 is newer than the API server"
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
		{"as many upgrades start as the budget allows", allow(2), hosts(3), nil, "win-00:Upgrade win-01:Upgrade win-02:Upgrade?Budget"},
		{"percentage is rounded down", percent("50%"), hosts(3), nil, "win-00:Upgrade win-01:Upgrade?Budget win-02:Upgrade?Budget"},
		{"percentage of few nodes allows one", percent("10%"), hosts(2), nil, "win-00:Upgrade win-01:Upgrade?Budget"},
		{"NotReady node uses budget", allow(1), named(host("", upToDate, notReady), host("")), nil, "win-01:Upgrade?Budget"},
		{"cordoned node uses budget", allow(1), named(host("", upToDate, cordoned), host("")), nil, "win-01:Upgrade?Budget"},
		{"node without an instance uses no budget", allow(1), hosts(1), []string{"other"}, "win-00:Upgrade"},
		{"node without an instance does not raise a percentage", percent("50%"), hosts(3), []string{"a", "b", "c"}, "win-00:Upgrade win-01:Upgrade?Budget win-02:Upgrade?Budget"},
		{"upgrade under way uses budget and continues", allow(1), named(host("", inMaintenance), host("")), nil, "win-00:Upgrade win-01:Upgrade?Budget"},
		{"granted upgrade uses budget before it starts", allow(1), named(host(""), host("", granted)), nil, "win-00:Upgrade?Budget win-01:Upgrade"},
		{"Node deleted during maintenance uses budget", allow(1), named(host("", inMaintenance, withoutNode), host("")), nil,
			"win-00:Upgrade win-01:Upgrade?Budget"},
		{"leaving host without a Node uses no budget", allow(1), named(host("", inMaintenance, withoutNode, leaving), host("")), nil, "win-00:Leave win-01:Upgrade"},
		{"broken node upgrades first", allow(1), named(host(""), host("", notReady)), nil, "win-00:Upgrade?Budget win-01:Upgrade"},
		{"broken node uses budget", allow(1), named(host("", notReady), host("", notReady)), nil, "win-00:Upgrade win-01:Upgrade?Budget"},
		{"node that is NotReady or silent for a minute is not broken", allow(2), named(host("", notReadyBriefly), host("", silentBriefly)), nil, "win-00:Upgrade?NodeNotReady win-01:Upgrade?NodeNotReady"},
		{"NotReady node without a transition time is not broken", allow(1), hosts(1, func(h *rollout.Host) { h.Node.Ready = false }), nil, "win-00:Upgrade?NodeNotReady"},
		{"more silent nodes than the budget are never broken", allow(1), named(host("", silent), host("", silent), host("", notReady)), nil,
			"win-00:Upgrade?FleetSilent win-01:Upgrade?FleetSilent win-02:Upgrade?FleetSilent"},
		{"as many silent nodes as the budget are broken", allow(2), named(host("", silent), host("", silent), host("")), nil,
			"win-00:Upgrade win-01:Upgrade win-02:Upgrade?Budget"},
		{"silent fleet blocks restarts", allow(1), named(host("", silent, upToDate), host("", silent, upToDate), host("", requestReboot)), nil, "win-02:Reboot?FleetSilent"},
		{"silent fleet does not block removed hosts", allow(1), named(host("", silent, upToDate, leaving), host("", silent, upToDate, leaving)), nil, "win-00:Leave win-01:Leave"},
		{"recently drained node uses budget", allow(1), named(host("", upToDate, recentlyDrained), host("")), nil, "win-01:Upgrade?Budget"},
		{"recently drained node uses one place of the budget", allow(2), named(host("", upToDate, recentlyDrained), host(""), host("")), nil, "win-01:Upgrade win-02:Upgrade?Budget"},
		{"recently drained node itself may restart", allow(1), named(host("", upToDate, recentlyDrained, requestReboot), host("")), nil, "win-00:Reboot win-01:Upgrade?Budget"},
		{"cordoned nodes upgrade one after the other", allow(1), named(host("", cordoned), host("", cordoned)), nil,
			"win-00:Upgrade win-01:Upgrade?Budget"},
		{"least disruptive upgrade goes first", allow(1), named(host(""), host("", restarts)), nil, "win-00:Upgrade?Budget win-01:Upgrade"},
		{"leaving goes before upgrading", allow(1), named(host(""), host("", leaving)), nil, "win-00:Upgrade?Budget win-01:Leave"},
		{"host that never joined leaves at once", allow(1), named(host("", inMaintenance), host("", fresh, leaving)), nil, "win-00:Upgrade win-01:Leave"},
		{"silent node waits before it leaves", allow(1), named(host("", inMaintenance), host("", silentBriefly, leaving)), nil, "win-00:Upgrade win-01:Leave?NodeNotReady"},
		{"silent node of a released host leaves at once", allow(1), named(host("", inMaintenance), host("", silentBriefly, leaving, released)), nil, "win-00:Upgrade win-01:Leave"},
		{"Ready node of a released host waits for budget", allow(1), named(host("", inMaintenance), host("", leaving, released)), nil, "win-00:Upgrade win-01:Leave?Budget"},
		{"dead node leaves without budget", allow(1), named(host("", inMaintenance), host("", notReady, leaving)), nil, "win-00:Upgrade win-01:Leave"},
		{"leaving replaces an upgrade under way", allow(1), named(host("", inMaintenance, leaving), host("")), nil, "win-00:Leave win-01:Upgrade?Budget"},
		{"staging goes before upgrading", allow(1), hosts(2, unstaged), nil, "win-00:Stage win-01:Stage"},
		{"up-to-date nodes need no action", allow(1), hosts(2, upToDate), nil, ""},
		{"host that never joined joins without budget", allow(1), named(host("", inMaintenance), host("", fresh)), nil, "win-00:Upgrade win-01:Join"},
		{"adopted nodes upgrade within the budget", allow(1), named(host("", takenOver), host("", takenOver)), nil, "win-00:Upgrade win-01:Upgrade?Budget"},
		{"requested reboot goes before an upgrade", allow(1), hosts(1, requestReboot), nil, "win-00:Reboot"},
		{"requested reboot waits for an upgrade under way", allow(1), hosts(1, inMaintenance, requestReboot), nil, "win-00:Upgrade"},
		{"pending reboot is ignored by default", allow(1), hosts(1, upToDate, pending), nil, ""},
		{"pending reboots within the budget where the policy allows them", reboots, hosts(2, upToDate, pending), nil, "win-00:Reboot win-01:Reboot?Budget"},
		{"pending reboot is ignored until WICD reports after the last restart", reboots, hosts(1, upToDate, pending, func(h *rollout.Host) { h.Node.BootID = "8" }), nil, ""}, // https://github.com/dsccommunity/xPendingReboot/issues/1
		{"pending reboot with unchanged causes is ignored", reboots, hosts(1, upToDate, pending, func(h *rollout.Host) { // https://github.com/chocolatey/choco/issues/1768
			h.LastReboot = &v1alpha1.LastReboot{Causes: "Windows Update; a file"}
		}), nil, ""},
		{"pending reboot with a new cause", reboots, hosts(1, upToDate, pending, func(h *rollout.Host) {
			h.LastReboot = &v1alpha1.LastReboot{Causes: "a file"}
		}), nil, "win-00:Reboot"},
		{"requested reboot with unchanged causes", reboots, hosts(1, upToDate, pending, requestReboot, func(h *rollout.Host) {
			h.LastReboot = &v1alpha1.LastReboot{Causes: "Windows Update"}
		}), nil, "win-00:Reboot"},
		{"Machines are replaced within the budget", allow(1), hosts(2, upToDate, func(h *rollout.Host) { h.ReplaceReason = "it knows no key" }), nil, "win-00:Replace win-01:Replace?Budget"},
		{"fleet is paused", allPaused, hosts(1), nil, "win-00:Upgrade?Paused"},
		{"host is paused", allow(1), named(host("", paused), host("")), nil, "win-00:Upgrade?Paused win-01:Upgrade"},
		{"upgrade under way continues while the fleet is paused", allPaused, hosts(1, inMaintenance), nil, "win-00:Upgrade"},
		{"version skew with the API server is unsupported", unsupportedVersion, hosts(1), nil, "win-00:Upgrade?VersionSkewUnsupported"},
		{"version is not published yet", unpublished, named(host(""), host("", unstaged), host("", inMaintenance)), nil,
			"win-00:Upgrade?Unpublished win-01:Stage win-02:Upgrade"},
		{"recently upgraded node waits for the cooldown", allow(1), named(host("", recently), host("")), nil, "win-00:Upgrade?UpgradeCooldown win-01:Upgrade"},
		{"failed upgrade stops the rollout", allow(3), named(host(""), host("", failedHere)), nil, "win-00:Upgrade?RolloutStopped win-01:Upgrade?Failed"},
		{"failed upgrade of a paused host does not stop the rollout", allow(3), named(host(""), host("", failedHere, paused)), nil,
			"win-00:Upgrade win-01:Upgrade?Paused"},
		{"abandoned drain does not stop the rollout", allow(3), named(host(""), host("", notDrained)), nil, "win-00:Upgrade win-01:Upgrade?Failed"},
		{"failure of another version does not stop the rollout", allow(3), named(host(""), host("", failedOnce)), nil, "win-00:Upgrade win-01:Upgrade"},
		{"canary upgrades alone", canary, hosts(3), nil, "win-00:Upgrade win-01:Upgrade?Canary win-02:Upgrade?Canary"},
		{"canary soaks", canary, named(host("", upToDate, recently), host("")), nil, "win-01:Upgrade?Canary"},
		{"rollout continues after the soak", canary, named(host("", upToDate), host(""), host("")), nil, "win-01:Upgrade win-02:Upgrade"},
		{"unhealthy canary holds the rollout", canary, named(host("", upToDate, unhealthy), host(""), host("")), nil,
			"win-01:Upgrade?Canary win-02:Upgrade?Canary"},
		{"canary unhealthy for the whole soak stops the rollout", canary, named(host("", upToDate, unhealthy, func(h *rollout.Host) {
			h.Node.UnhealthySince = noon().Add(-11 * time.Minute)
		}), host("")), nil, "win-01:Upgrade?RolloutStopped"},
		{"node that was never healthy after its upgrade stops the rollout", allow(5), named(host("", upToDate, unhealthy, func(h *rollout.Host) {
			h.Since, h.Node.UnhealthySince = noon().Add(-19*time.Minute), noon().Add(-11*time.Minute)
		}), host("")), nil, "win-01:Upgrade?RolloutStopped"},
		{"node unhealthy after days does not stop the rollout", allow(5), named(host("", upToDate, unhealthy, func(h *rollout.Host) {
			h.Node.UnhealthySince = noon().Add(-11 * time.Minute)
		}), host("")), nil, "win-01:Upgrade"},
		{"canary that recovered a minute ago has not soaked", canary, named(host("", upToDate, func(h *rollout.Host) {
			h.Node.WorksSince = noon().Add(-time.Minute)
		}), host("")), nil, "win-01:Upgrade?Canary"},
		{"cordoned canary holds the rollout", canary, named(host("", upToDate, cordoned), host("")), nil, "win-01:Upgrade?Canary"},
		{"canary silent for a minute holds the rollout", canary, named(host("", upToDate, silentBriefly), host("")), nil, "win-01:Upgrade?Canary"},
		{"dead canary is replaced", canary, named(host("", upToDate, silent), host(""), host("")), nil, "win-01:Upgrade win-02:Upgrade?Canary"},
		{"canary without a Node is replaced", canary, named(host("", arrived), host(""), host("")), nil, "win-01:Upgrade win-02:Upgrade?Canary"},
		{"second dead canary is not replaced", canary, named(host("", upToDate, silent), host("", arrived), host("")), nil, "win-02:Upgrade?Canary"},
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
		{"upgraded and Ready", upgrade, &good, nil, "", ""},
		{"Node is missing", upgrade, nil, nil, "the Node does not exist", ""},
		{"old version is reported", upgrade, with(func(n *rollout.Node) { n.Version = old }), nil, "WICD has not reported version 1.1.0-bbbbbbb yet", ""},
		{"rolled back", upgrade, with(func(n *rollout.Node) { n.Version, n.UpdateFailed = old, "kubelet died" }), nil, "", "kubelet died"},
		{"NotReady", upgrade, with(func(n *rollout.Node) { n.Ready = false }), nil, "the node is not Ready", ""},
		{"service fails", upgrade, with(func(n *rollout.Node) { n.Unhealthy = "containerd died" }), nil, "containerd died", ""},
		{"kubelet reports another version", upgrade, with(func(n *rollout.Node) { n.Kubelet = "v1.35.0" }), nil, "the kubelet still reports version v1.35.0, not v1.36.3", ""},
		{"readiness gate is not True", upgrade, &good, gates, "conditions in readinessGates are not True on the Node: StorageReady", ""},
		{"readiness gate is True", upgrade, with(func(n *rollout.Node) { n.True = map[string]bool{"StorageReady": true} }), gates, "", ""},
		{"host has not restarted", reboot, with(func(n *rollout.Node) { n.BootID = "7" }), nil, "the host has not restarted yet", ""},
		{"host has restarted", reboot, &good, nil, "", ""},
		{"host has restarted and WICD has not reported yet", reboot, with(func(n *rollout.Node) { n.ReportedBoot = "7" }), nil, "WICD has not reported since the restart", ""},
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
		host("", upToDate), host("", inMaintenance), host("", failedHere), host(""))})
	s := plan.Summary
	if s.Nodes != 4 || s.AtVersion != 1 || s.OutOfService != 1 || s.MaxUnavailable != 2 || s.Waiting != 2 || s.Orphans != 7 || len(s.Failed) != 1 {
		t.Errorf("summary is %+v", s)
	}
	want := "in progress: 1 Upgrade; waiting: 1 Upgrade (Failed), 1 Upgrade (RolloutStopped); failed on win-02; no WindowsInstance for Node a, b, c, d, e and 2 more"
	if s.Message != want {
		t.Errorf("message is %q, want %q", s.Message, want)
	}
}
