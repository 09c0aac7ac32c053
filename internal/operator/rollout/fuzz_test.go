package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// FuzzDecide checks invariants with random fleets: no serving node is taken out of service beyond the budget, every waiting action has a reason, and
// the order of hosts does not matter.
func FuzzDecide(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, "2", "0 22 * * 6")
	}
	f.Fuzz(func(t *testing.T, seed uint64, most, schedule string) {
		random := rand.New(rand.NewPCG(seed, 1))
		fleet := anyFleet(random, most, schedule)
		plan := rollout.Decide(fleet)
		out, taken := count(fleet, plan)
		if limit := int(plan.Summary.MaxUnavailable); taken > 0 && out > limit {
			t.Errorf("%d nodes are or will be out of service, %d of them for a new action, %d may be\n%s", out, taken, limit, describe(plan))
		}
		for name, next := range plan.Hosts {
			if next.Begin == (next.WaitsFor != "") {
				t.Errorf("%s begins: %v, and waits for %q", name, next.Begin, next.WaitsFor)
			}
		}
		random.Shuffle(len(fleet.Hosts), func(i, j int) { fleet.Hosts[i], fleet.Hosts[j] = fleet.Hosts[j], fleet.Hosts[i] })
		if diff := cmp.Diff(plan, rollout.Decide(fleet)); diff != "" {
			t.Errorf("in another order the plan is another one (-as it was +shuffled):\n%s", diff)
		}
	})
}

// count returns how many nodes are or will be out of service, and how many serving nodes the plan newly takes out.
func count(f rollout.Fleet, plan rollout.Plan) (out, taken int) {
	for _, h := range f.Hosts {
		next := plan.Hosts[h.Name]
		drains := next.Disruption == v1alpha1.DisruptionDrain || next.Disruption == v1alpha1.DisruptionReboot
		switch {
		case h.Node == nil && h.Maintenance != nil && !h.Leaving:
			out++
		case h.Node == nil:
		case !h.Node.Ready || h.Node.Unschedulable:
			out++
		case next.Begin && drains:
			out++
			if h.Maintenance == nil && h.Granted == "" {
				taken++
			}
		}
	}
	return out, taken
}

func anyFleet(r *rand.Rand, most, schedule string) rollout.Fleet {
	chance := func(n int) bool { return r.IntN(n) == 0 }
	f := rollout.Fleet{Now: noon(), Policy: rollout.Policy{
		Version: wanted, Paused: chance(10), Reboots: chance(2), MaxUnavailable: intstr.Parse(most),
	}}
	if chance(3) {
		f.Policy.Canary = &rollout.Canary{Count: 1 + r.IntN(3), Soak: 10 * time.Minute}
	}
	if chance(2) {
		f.Policy.Updates = &rollout.Updates{Rings: rings()[:r.IntN(3)]}
	}
	if chance(4) {
		w, _ := rollout.ParseWindow(v1alpha1.MaintenanceWindow{Schedule: schedule, Duration: "4h"}) // an invalid window never opens
		f.Policy.Windows = append(f.Policy.Windows, w)
	}
	for n := range r.IntN(12) {
		f.Hosts = append(f.Hosts, anyHost(r, fmt.Sprintf("win-%02d", n)))
	}
	return f
}

func anyHost(r *rand.Rand, name string) rollout.Host {
	changes := []func(*rollout.Host){notReady, cordoned, leaving, paused, unstaged, upToDate, restarts, requestReboot, pending, granted, fresh, takenOver,
		failedHere, failedOnce, notDrained, inMaintenance, offered, patching, patched(time.Minute), patched(time.Hour), patchFailed, early, func(h *rollout.Host) { h.ReplaceReason = "it knows no key" },
		func(h *rollout.Host) { h.ReplaceWith = "win-00" }}
	h := host(name)
	for range r.IntN(4) {
		if change := changes[r.IntN(len(changes))]; h.Node != nil {
			change(&h)
		}
	}
	if chance := r.IntN(10); chance == 0 {
		withoutNode(&h)
	}
	return h
}

// FuzzNodeOf reads arbitrary annotations and conditions of a Node.
func FuzzNodeOf(f *testing.F) {
	f.Add("1.0.0-a", "", "Upgrade", "Ready", "True", "x")
	f.Add("", "please", "", api.ConditionUpdated, "False", "")
	f.Fuzz(func(t *testing.T, version, reboot, cordoned, kind, status, message string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			api.AnnotationVersion: version, api.AnnotationReboot: reboot, api.AnnotationCordoned: cordoned,
		}}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status), Message: message}}
		n := rollout.NodeOf(node)
		if n.RebootRequested == "" {
			t.Error("an annotation without a value counts as a request, too")
		}
		if n.Ready && n.Silent || n.Ready != (kind == "Ready" && status == "True") {
			t.Errorf("condition %s=%s was read as %+v", kind, status, n)
		}
		if !n.Same(rollout.NodeOf(node.DeepCopy())) {
			t.Error("the same Node is not the same")
		}
		rollout.Decide(rollout.Fleet{Policy: allow(1), Hosts: []rollout.Host{{Name: "a", Joined: true, Node: n}}, Now: noon()})
	})
}

// FuzzWindow parses arbitrary windows: each opens and closes, or is rejected with a message that names the field.
func FuzzWindow(f *testing.F) {
	f.Add("0 22 * * 6", "4h", "Europe/Berlin")
	f.Add("*/5 * * * *", "1m", "")
	f.Add("@every 1s", "-1h", "../../etc/passwd")
	f.Add("TZ=UTC123", "4h", "Local")
	f.Fuzz(func(t *testing.T, schedule, duration, zone string) {
		w, err := rollout.ParseWindow(v1alpha1.MaintenanceWindow{Schedule: schedule, Duration: duration, TimeZone: zone})
		if err != nil {
			named := func(field string) bool { return len(err.Error()) > len(field) && err.Error()[:len(field)] == field }
			if !slices.ContainsFunc([]string{"schedule", "duration", "timeZone"}, named) {
				t.Errorf("the message does not name a field: %v", err)
			}
		}
		policy := allow(1)
		policy.Windows = []rollout.Window{w}
		plan := rollout.Decide(rollout.Fleet{Policy: policy, Hosts: hosts(1), Now: noon()})
		if err != nil && plan.Hosts["win-00"].Begin {
			t.Errorf("a window that makes no sense (%v) is open", err)
		}
	})
}
