package source

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

func TestHostIsReservedForOneInstance(t *testing.T) {
	var h Ownership
	ip, start := netip.MustParseAddr("10.0.0.1"), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	if _, ok := h.reserve(ip, controllertest.Key("a"), start); !ok {
		t.Fatal("a free host is taken")
	}
	if holder, ok := h.reserve(ip, controllertest.Key("b"), start.Add(reservationLifetime)); ok || holder != controllertest.Key("a") {
		t.Errorf("another instance got the host of %s", holder)
	}
	if _, ok := h.reserve(ip, controllertest.Key("a"), start.Add(time.Second)); !ok {
		t.Error("the holder cannot renew its reservation")
	}
	if _, ok := h.reserve(ip, controllertest.Key("b"), start.Add(2*time.Second+reservationLifetime)); !ok {
		t.Error("a reservation outlives the time in which every cache observes the instance")
	}
	h.release(controllertest.Key("b"))
	if _, ok := h.reserve(ip, controllertest.Key("c"), start.Add(3*time.Second+reservationLifetime)); !ok {
		t.Error("a released host is still reserved")
	}
}

// After the start, an entry must not overtake a Machine, which has priority, nor wait for an API that never answers.
func TestHostsAreAssignedAfterHigherSourcesHaveSynced(t *testing.T) {
	w := newSources(t, userMap("10.0.0.1"), aMachine("cluster", "c", "10.0.0.2"),
		aMachine("machine", "m", "10.0.0.1"), aMachine("machine", "n", "10.0.0.2"))
	place := w.machineAPI.place.Swap(nil)
	w.machineAPI.tried.Store(false)
	w.passOf(w.clusterAPI)
	r, err := w.configMap.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || r.RequeueAfter == 0 {
		t.Errorf("got %+v, %v; want a requeue", r, err)
	}
	w.expect()
	start := w.machineAPI.Hosts.firstCalled
	if w.machineAPI.Hosts.ready(start.Add(readyTimeout)) || !w.machineAPI.Hosts.ready(start.Add(readyTimeout+1)) {
		t.Errorf("the others do not wait for %s", readyTimeout)
	}
	w.machineAPI.place.Store(place)
	w.machineAPI.tried.Store(true)
	w.pass()
	w.expect("m Machine 10.0.0.1", "n Machine 10.0.0.2")
}

func TestRemovedEntryLeavesOnceAndReturns(t *testing.T) {
	cm := userMap("10.0.0.1")
	w := newSources(t, cm, controllertest.Instance("10.0.0.1", "ConfigMap", "", "10.0.0.1"))
	cm.Data = nil
	w.must(w.Update(t.Context(), cm))
	for range 3 {
		w.pass()
	}
	w.expect("10.0.0.1 ConfigMap 10.0.0.1 leaves")
	if w.writes != 1 || len(w.Events) != 1 {
		t.Errorf("%d writes, events %q; want one of each", w.writes, w.Events)
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

func TestTwoEntriesForOneHostYieldOneInstance(t *testing.T) {
	w := newSources(t, userMap("10.0.0.1", "host.example"))
	w.pass()
	w.expect("10.0.0.1 ConfigMap 10.0.0.1")
	w.expectEvent(corev1.EventTypeWarning, "host.example", `entry "10.0.0.1"`)

	reported := controllertest.Instance("10.0.0.9", "ConfigMap", "", "10.0.0.9")
	reported.Status.NodeIP = "10.0.0.1"
	w = newSources(t, userMap("10.0.0.1", "10.0.0.9"), client.Object(reported))
	w.pass()
	w.expect("10.0.0.9 ConfigMap 10.0.0.9")
	w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, `"10.0.0.1"`, `entry "10.0.0.9"`)
}

func TestAnnouncementFollowsMachine(t *testing.T) {
	m := aMachine("machine", "m", "10.0.0.1")
	w := newSources(t, m)
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for range 2 { // the second time from the cache
			got = nil
			for _, a := range w.machineAPI.Announced(t.Context()) {
				got = append(got, a.Object+" "+a.Address.String())
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
	m.SetLabels(map[string]string{api.LabelMachineOS: "Windows", api.LabelIgnore: "true"})
	w.must(w.Update(t.Context(), m))
	expect()
	w.must(w.Delete(t.Context(), m))
	w.must(w.Create(t.Context(), aMachine("machine", "m", "10.0.0.3")))
	expect("Machine openshift-machine-api/m 10.0.0.3")
}

// Names for which DNS does not answer delay no others: neither addresses, nor known names, nor removals, nor, forever, another new name.
func TestUnansweredNamesDoNotDelayOthers(t *testing.T) {
	for _, silent := range []int{4, 640, 6400} {
		synctest.Test(t, func(t *testing.T) {
			removed := controllertest.Instance("10.0.0.9", "ConfigMap", "", "10.0.0.9")
			changed := controllertest.Instance("10.0.0.2", "ConfigMap", "", "10.0.0.2")
			users := userMap("10.0.0.1", "10.0.0.2")
			users.Data["10.0.0.2"] = "username=other"
			for n := range silent {
				users.Data[fmt.Sprintf("silent-%d.example", n)] = "username=Administrator"
			}
			w := newSources(t, users, removed, changed)
			resolver := w.configMap.Hosts.Resolver
			var mu sync.Mutex
			most, lookingUp := 0, 0 // guarded by mu
			resolver.dns = func(ctx context.Context, _, name string) ([]netip.Addr, error) {
				if !strings.HasPrefix(name, "silent") {
					return []netip.Addr{netip.MustParseAddr("10.0.0.5")}, nil
				}
				mu.Lock()
				lookingUp++
				most = max(most, lookingUp)
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				lookingUp--
				mu.Unlock()
				return nil, context.Cause(ctx)
			}
			began := time.Now()
			w.reconcile()
			w.expect("10.0.0.1 ConfigMap 10.0.0.1", "10.0.0.2 ConfigMap 10.0.0.2", "10.0.0.9 ConfigMap 10.0.0.9 leaves")
			if user := w.instances()[1].Spec.Username; user != "other" {
				t.Errorf("the user is still %s", user)
			}
			users.Data["zz.example"] = "username=Administrator"
			w.must(w.Update(t.Context(), users))
			for len(w.instances()) < 4 && time.Since(began) < 2*time.Hour {
				began := time.Now()
				w.reconcile()
				if took := time.Since(began); took != 0 {
					t.Fatalf("a reconcile takes %s", took)
				}
				select {
				case <-resolver.Answered:
				case <-time.After(recheckInterval):
				}
			}
			w.expect("10.0.0.1 ConfigMap 10.0.0.1", "10.0.0.2 ConfigMap 10.0.0.2", "10.0.0.9 ConfigMap 10.0.0.9 leaves", "zz.example ConfigMap zz.example")
			t.Logf("beside %d silent names, a new one became an instance after %s", silent, time.Since(began))
			mu.Lock()
			if most > lookups {
				t.Errorf("%d concurrent lookups, want at most %d", most, lookups)
			}
			mu.Unlock()
			if ips, err := resolver.Lookup(t.Context(), "connected.example"); err != nil || ips[0].String() != "10.0.0.5" {
				t.Errorf("whoever connects gets %v (%v)", ips, err)
			}
			time.Sleep(unresolvedTimeout + lookupTimeout) // lookups in progress end
		})
	}
}

// An instance whose name is being resolved has its host already, although the operator does not know yet which one.
func TestHostIsNotReassignedDuringNameLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSources(t, userMap("10.0.0.1"), aMachine("machine", "m", "10.0.0.2"),
			controllertest.Instance("a", "", "", "first.example"), controllertest.Instance("b", "", "", "second.example"), controllertest.Instance("c", "", "", "silent.example"))
		w.configMap.Hosts.dns = func(ctx context.Context, _, name string) ([]netip.Addr, error) {
			if strings.HasPrefix(name, "silent") {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			time.Sleep(time.Second)
			return []netip.Addr{netip.MustParseAddr(map[string]string{"first.example.": "10.0.0.1", "second.example.": "10.0.0.2"}[name])}, nil
		}
		began := time.Now()
		for time.Since(began) < 2*lookupTimeout {
			w.passOf(w.machineAPI)
			if again := w.reconcile().RequeueAfter; time.Since(began) < lookupTimeout && again != readyInterval {
				t.Errorf("after %s: next check in %s", time.Since(began), again)
			}
			time.Sleep(readyInterval)
		}
		w.expect("a  first.example", "b  second.example", "c  silent.example")
		w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, `"10.0.0.1"`, "WindowsInstance a")
		w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, " m ", "WindowsInstance b")
	})
}

// The addresses of a name are remembered: while DNS does not answer, no caller waits for it and no host is lost.
func TestNameKeepsAddressesDuringDNSOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Value
		now.Store("10.0.0.1")
		var requested atomic.Int32
		r := NewResolver(func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
			requested.Add(1)
			address := now.Load().(string)
			if address == "" {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return []netip.Addr{netip.MustParseAddr(address)}, nil
		})
		means := func(want string, within time.Duration) {
			t.Helper()
			began := time.Now()
			got := r.resolve(t.Context(), []string{"host.example"})["host.example"]
			if got.err != nil || got.ip().String() != want || time.Since(began) > within {
				t.Errorf("got %s (%v) after %s, want %s within %s", got.ip(), got.err, time.Since(began), want, within)
			}
		}
		r.resolve(t.Context(), []string{"host.example"})
		synctest.Wait()
		means("10.0.0.1", 0)
		now.Store("")
		for range 5 {
			time.Sleep(answerLifetime + lookupTimeout + time.Second)
			means("10.0.0.1", 0)
		}
		if ips, err := r.Lookup(t.Context(), "host.example"); err != nil || ips[0].String() != "10.0.0.1" {
			t.Errorf("whoever connects gets %v, %v", ips, err)
		}
		now.Store("10.0.0.2")
		time.Sleep(answerLifetime + lookupTimeout + time.Second)
		means("10.0.0.1", 0) // and looks it up in the background
		synctest.Wait()
		means("10.0.0.2", 0)
		if requested := requested.Load(); requested != 8 {
			t.Errorf("DNS received %d queries, want 8", requested)
		}
		time.Sleep(forgetAfter + time.Second)
		r.resolve(t.Context(), nil)
		if len(r.known) > 0 {
			t.Errorf("%d unused names are cached", len(r.known))
		}
	})
}

// A name that did not resolve is looked up again after a growing pause, not in each pass.
func TestUnresolvedNameIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requested []time.Duration
		began := time.Now()
		r := NewResolver(func(context.Context, string, string) ([]netip.Addr, error) {
			requested = append(requested, time.Since(began).Truncate(10*time.Second))
			return nil, fmt.Errorf("no such host")
		})
		for time.Since(began) < 20*time.Minute {
			r.resolve(t.Context(), []string{"host.example"})
			time.Sleep(time.Second)
		}
		if got := r.resolve(t.Context(), []string{"host.example"})["host.example"]; got.err == nil {
			t.Error("it resolves")
		}
		want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second, 610 * time.Second, 910 * time.Second}
		if !slices.Equal(requested, want) {
			t.Errorf("DNS was queried after %v, want %v", requested, want)
		}
	})
}

// Two spellings of one DNS name are one host, whether or not DNS answers.
func TestTwoSpellingsOfNameYieldOneInstance(t *testing.T) {
	for _, away := range []bool{false, true} {
		users := userMap("HOST.example", "host.example", "host.example.", "10.0.0.2")
		w := newSources(t, users)
		if away {
			w.must(w.Create(t.Context(), controllertest.Instance("host.example", "ConfigMap", "", "HOST.example")))
			w.writes, w.names = 0, nil
		}
		for range 2 {
			w.pass()
		}
		got := w.instances()
		if len(got) != 2 || got[1].Name != "host.example" || got[1].DeletionTimestamp != nil {
			t.Fatalf("DNS unavailable: %v; instances are %+v", away, got)
		}
		w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, `entry "host.example"`, `"HOST.example"`)
		w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, `entry "host.example."`, `"HOST.example"`)
		delete(users.Data, "HOST.example")
		w.must(w.Update(t.Context(), users))
		w.pass()
		if got := w.instances(); len(got) != 2 || got[1].DeletionTimestamp != nil {
			t.Errorf("DNS unavailable: %v; the other spelling did not keep the instance: %+v", away, got)
		}
	}
}

// Binary data is reported and does not count as gone: a file that an editor saved in another encoding must not remove nodes.
func TestBinaryEntriesAreInvalidNotRemoved(t *testing.T) {
	users := userMap("10.0.0.2")
	users.BinaryData = map[string][]byte{"10.0.0.1": {0xff, 0xfe, 'u', 0}, "new.example": {0xff}}
	w := newSources(t, users, controllertest.Instance("10.0.0.1", "ConfigMap", "", "10.0.0.1"))
	w.pass()
	w.expect("10.0.0.1 ConfigMap 10.0.0.1", "10.0.0.2 ConfigMap 10.0.0.2")
	for key := range users.BinaryData {
		w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, key, "UTF-8", "binaryData")
	}
}

// A list full of errors causes a handful of events, and its good entry becomes an instance.
func TestInvalidEntriesCauseFewEvents(t *testing.T) {
	users := userMap("10.0.0.1")
	for n := range 3000 {
		users.Data[fmt.Sprintf("192.168.%d.%d", n/250, n%250)] = "Administrator"
	}
	w := newSources(t, users)
	if _, err := w.configMap.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Recorder.Events); n > maxFaultEvents+2 {
		t.Errorf("%d events were made", n)
	}
	w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, fmt.Sprintf("%d more entries are invalid", 3000-maxFaultEvents))
	w.expectEvent(corev1.EventTypeNormal, api.EventInstanceSetup, `"10.0.0.1"`)
}
