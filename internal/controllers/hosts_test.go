package controllers

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

func TestAHostIsGivenToOneInstance(t *testing.T) {
	var h hosts
	ip, start := netip.MustParseAddr("10.0.0.1"), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	if _, ok := h.give(ip, named("a"), start); !ok {
		t.Fatal("a free host is taken")
	}
	if holder, ok := h.give(ip, named("b"), start.Add(rememberFor)); ok || holder != named("a") {
		t.Errorf("another instance got the host of %s", holder)
	}
	if _, ok := h.give(ip, named("a"), start.Add(time.Second)); !ok {
		t.Error("the one who has it cannot have it again")
	}
	if _, ok := h.give(ip, named("b"), start.Add(2*time.Second+rememberFor)); !ok {
		t.Error("a gift is remembered for ever; by now everybody can see the instance")
	}
	h.takeBack(named("b"))
	if _, ok := h.give(ip, named("c"), start.Add(3*time.Second+rememberFor)); !ok {
		t.Error("what was taken back is still taken")
	}
}

// At the start, an entry must not be quicker than the Machine that comes before it, nor wait for an API that never answers.
func TestNoHostIsGivenAwayBeforeTheStrongerSourcesHaveLooked(t *testing.T) {
	w := newSources(t, userMap("10.0.0.1"), aMachine("cluster", "c", "10.0.0.2"),
		aMachine("machine", "m", "10.0.0.1"), aMachine("machine", "n", "10.0.0.2"))
	place := w.machineAPI.place.Swap(nil)
	w.machineAPI.tried.Store(false)
	w.passOf(w.clusterAPI)
	r, err := w.configMap.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || r.RequeueAfter == 0 {
		t.Errorf("got %+v, %v; want to look again", r, err)
	}
	w.expect()
	start := w.machineAPI.hosts.firstAsked
	if w.machineAPI.hosts.ready(start.Add(readyWithin)) || !w.machineAPI.hosts.ready(start.Add(readyWithin+1)) {
		t.Errorf("the others do not wait for %s", readyWithin)
	}
	w.machineAPI.place.Store(place)
	w.machineAPI.tried.Store(true)
	w.pass()
	w.expect("m Machine 10.0.0.1", "n Machine 10.0.0.2")
}

func TestAnEntryThatLeavesIsToldOnceAndComesBack(t *testing.T) {
	cm := userMap("10.0.0.1")
	w := newSources(t, cm, anInstance("10.0.0.1", "ConfigMap", "", "10.0.0.1"))
	cm.Data = nil
	w.must(w.Update(t.Context(), cm))
	for range 3 {
		w.pass()
	}
	w.expect("10.0.0.1 ConfigMap 10.0.0.1 leaves")
	if w.writes != 1 || len(w.events) != 1 {
		t.Errorf("%d writes, events %q; want one of each", w.writes, w.events)
	}
	cm.Data = map[string]string{"10.0.0.1": "username=other"}
	w.must(w.Update(t.Context(), cm))
	w.pass()
	w.expect("10.0.0.1 ConfigMap 10.0.0.1 leaves")
	if w.writes != 1 {
		t.Errorf("an instance on its way out is written to %d times", w.writes-1)
	}
	w.leave()
	w.pass()
	w.expect("10.0.0.1 ConfigMap 10.0.0.1")
}

func TestTwoEntriesForAHostAreOneInstance(t *testing.T) {
	w := newSources(t, userMap("10.0.0.1", "host.example"))
	w.pass()
	w.expect("10.0.0.1 ConfigMap 10.0.0.1")
	w.expectEvent(corev1.EventTypeWarning, "host.example", `entry "10.0.0.1"`)

	reported := anInstance("10.0.0.9", "ConfigMap", "", "10.0.0.9")
	reported.Status.NodeIP = "10.0.0.1"
	w = newSources(t, userMap("10.0.0.1", "10.0.0.9"), client.Object(reported))
	w.pass()
	w.expect("10.0.0.9 ConfigMap 10.0.0.9")
	w.expectEvent(corev1.EventTypeWarning, v1alpha1.EventInstanceInvalid, `"10.0.0.1"`, `entry "10.0.0.9"`)
}

func TestWhatAMachineAsksForFollowsTheMachine(t *testing.T) {
	m := aMachine("machine", "m", "10.0.0.1")
	w := newSources(t, m)
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for range 2 { // the second time it is remembered
			got = nil
			for _, a := range w.machineAPI.announced(t.Context()) {
				got = append(got, a.who+" "+a.address.String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("announced are %q, want %q", got, want)
			}
		}
	}
	expect("Machine openshift-machine-api/m 10.0.0.1")
	m.Object["status"] = aMachine("machine", "m", "10.0.0.2").Object["status"]
	w.must(w.Update(t.Context(), m))
	expect("Machine openshift-machine-api/m 10.0.0.2")
	m.SetLabels(map[string]string{v1alpha1.LabelMachineOS: "Windows", v1alpha1.LabelIgnore: "true"})
	w.must(w.Update(t.Context(), m))
	expect()
	w.must(w.Delete(t.Context(), m))
	w.must(w.Create(t.Context(), aMachine("machine", "m", "10.0.0.3")))
	expect("Machine openshift-machine-api/m 10.0.0.3")
}
