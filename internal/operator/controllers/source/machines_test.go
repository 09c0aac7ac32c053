package source

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

func TestMachineBecomesInstance(t *testing.T) {
	for group, source := range map[string]string{"machine": "Machine", "cluster": "ClusterAPI"} {
		w := newSources(t, aMachine(group, "win-a", "10.0.0.1"))
		w.pass()
		w.expect("win-a " + source + " 10.0.0.1")
		w.expectEvent("Normal", api.EventInstanceSetup, "win-a", "created WindowsInstance win-a")
		writes, events := w.writes, len(w.Events)
		w.pass()
		if w.writes != writes || len(w.Events) != events {
			t.Errorf("%s: a second reconcile causes %d writes and %d events", group, w.writes-writes, len(w.Events)-events)
		}
	}
}

// A Machine without node, owner and provider ID crashed the original operator (D5), and a waiting one was reported as a failure (D2).
func TestUnreadyMachinesAreNotReported(t *testing.T) {
	w := newSources(t,
		aMachine("machine", "bare", "10.0.0.1", "metadata: {ownerReferences: null, labels: {machine.openshift.io/os-id: Windows}}",
			"spec: {providerID: null, providerSpec: null}", "status: {phase: Running, nodeRef: null, addresses: [{type: InternalIP, address: 10.0.0.1}]}"),
		aMachine("machine", "soon", "", "status: {phase: Provisioning, addresses: null}"),
		aMachine("machine", "new", "", "status: {}"),
		aMachine("machine", "failed", "", "status: {phase: Failed}"))
	w.pass()
	w.expect("bare Machine 10.0.0.1")
	for _, e := range w.Events {
		if strings.HasPrefix(e, "Warning") {
			t.Errorf("unexpected warning: %s", e)
		}
	}
}

func TestInstanceOfDeletedMachineIsReleased(t *testing.T) {
	tests := map[string]func(w *sources, m *unstructured.Unstructured){
		"gone": func(w *sources, m *unstructured.Unstructured) {
			w.must(w.Delete(t.Context(), m))
		},
		"being deleted": func(w *sources, m *unstructured.Unstructured) {
			m.SetFinalizers([]string{"machine.machine.openshift.io"})
			w.must(w.Update(t.Context(), m))
			w.must(w.Delete(t.Context(), m))
		},
		"in phase Deleting": func(w *sources, m *unstructured.Unstructured) {
			m.Object["status"] = map[string]any{"phase": "Deleting"}
			w.must(w.Update(t.Context(), m))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			m := aMachine("machine", "win-a", "10.0.0.1")
			w := newSources(t, m, controllertest.Instance("win-a", "Machine", "openshift-machine-api/win-a", "10.0.0.1"))
			w.pass()
			w.expect("win-a Machine 10.0.0.1")
			change(w, m)
			w.pass()
			w.expect("win-a Machine 10.0.0.1 leaves released")
			w.expectEvent("Normal", api.EventInstanceTeardown, "win-a")
			events := len(w.Events)
			w.pass()
			if len(w.Events) != events {
				t.Errorf("reported again: %s", w.Events[events:])
			}
		})
	}
}

func TestHostOfUnselectedMachineLeaves(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"label removed": {},
		"ignored":       {api.LabelMachineOS: "Windows", api.LabelIgnore: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			m := aMachine("cluster", "win-a", "10.0.0.1")
			w := newSources(t, m, controllertest.Instance("win-a", "ClusterAPI", "openshift-cluster-api/win-a", "10.0.0.1"))
			m.SetLabels(labels)
			w.must(w.Update(t.Context(), m))
			w.pass()
			w.expect("win-a ClusterAPI 10.0.0.1 leaves")
			w.leave()
			w.pass()
			w.expect()
		})
	}
}

func TestUnreadableMachineKeepsItsInstance(t *testing.T) {
	instance := controllertest.Instance("win-a", "Machine", "openshift-machine-api/win-a", "10.0.0.1")
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: MachineAPINamespace, Name: "win-a"}}
	t.Run("missing API", func(t *testing.T) {
		w := newSources(t, instance.DeepCopy())
		w.machineAPI.place.Store(nil)
		if r, err := w.machineAPI.Reconcile(t.Context(), request); err != nil || r.RequeueAfter == 0 {
			t.Errorf("got %+v, %v", r, err)
		}
		w.expect("win-a Machine 10.0.0.1")
	})
	t.Run("forbidden", func(t *testing.T) {
		w := newSources(t, instance.DeepCopy())
		w.unreadable = apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "win-a", errors.New("no role"))
		if _, err := w.machineAPI.Reconcile(t.Context(), request); !apierrors.IsForbidden(err) {
			t.Errorf("the error is %v", err)
		}
		w.expect("win-a Machine 10.0.0.1")
	})
	t.Run("malformed Machine", func(t *testing.T) {
		w := newSources(t, instance.DeepCopy(), aMachine("machine", "win-a", "", "status: {phase: Running, addresses: 7}"))
		w.pass()
		w.expect("win-a Machine 10.0.0.1")
		w.expectEvent("Warning", api.EventInstanceInvalid, "win-a", "status.addresses")
	})
	t.Run("Machine without an address", func(t *testing.T) {
		w := newSources(t, instance.DeepCopy(), aMachine("machine", "win-a", "", "status: {phase: Running, addresses: []}"))
		w.pass()
		w.expect("win-a Machine 10.0.0.1")
		w.expectNoEvent()
	})
}

// TestMachineWithoutAddressesKeepsInstance: the first pod network moves the address to an adapter that VMware Tools do not report to
// vSphere.
func TestMachineWithoutAddressesKeepsInstance(t *testing.T) {
	m := aMachine("machine", "win-a", "10.0.0.1")
	w := newSources(t, m)
	w.pass()
	w.expect("win-a Machine 10.0.0.1")
	events := len(w.Events)
	for _, status := range []map[string]any{
		{"phase": "Running"},
		{"phase": "Running", "addresses": []any{}},
		{"phase": "Running", "addresses": []any{map[string]any{"type": "Hostname", "address": "win-a"}}},
		{"phase": "Running", "addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}}},
	} {
		m.Object["status"] = status
		w.must(w.Update(t.Context(), m))
		w.pass()
		w.expect("win-a Machine 10.0.0.1")
	}
	if len(w.Events) != events {
		t.Errorf("unexpected events: %s", w.Events[events:])
	}
}

func TestNewAddressReplacesInstance(t *testing.T) {
	m := aMachine("machine", "win-a", "10.0.0.2")
	w := newSources(t, m, controllertest.Instance("win-a", "Machine", "openshift-machine-api/win-a", "10.0.0.1"))
	w.pass()
	w.expect("win-a Machine 10.0.0.1 leaves released")
	w.expectEvent("its Machine now has address 10.0.0.2")
	w.pass()
	w.expect("win-a Machine 10.0.0.1 leaves released")
	w.leave()
	w.pass()
	w.expect("win-a Machine 10.0.0.2")
}

func TestAddressOrderIsIrrelevant(t *testing.T) {
	w := newSources(t, controllertest.Instance("win-a", "Machine", "openshift-machine-api/win-a", "10.0.0.2"),
		aMachine("machine", "win-a", "", "status: {phase: Running, addresses: [{type: InternalIP, address: 10.0.0.1}, {type: InternalIP, address: 10.0.0.2}]}"))
	w.pass()
	w.expect("win-a Machine 10.0.0.2")
	w.expectNoEvent()
}

func TestUserChangesToInstanceAreKept(t *testing.T) {
	i := controllertest.Instance("win-a", "Machine", "openshift-machine-api/win-a", "10.0.0.1")
	i.Spec.Username, i.Spec.Paused = "other", true
	w := newSources(t, aMachine("machine", "win-a", "10.0.0.1"), i)
	w.pass()
	if w.writes > 0 {
		t.Errorf("got %d writes", w.writes)
	}
}

func TestDeletedInstanceIsRecreatedForMachine(t *testing.T) {
	i := controllertest.Instance("win-a", "Machine", "openshift-machine-api/win-a", "10.0.0.1")
	w := newSources(t, aMachine("machine", "win-a", "10.0.0.1"), i)
	w.must(w.Delete(t.Context(), i))
	w.pass()
	w.expect("win-a Machine 10.0.0.1 leaves")
	w.leave()
	w.pass()
	w.expect("win-a Machine 10.0.0.1")
}

func TestMachineWithTakenNameGetsAlternativeName(t *testing.T) {
	other := aMachine("cluster", "win-a", "10.0.0.3")
	other.SetNamespace("team-a")
	w := newSources(t, aMachine("machine", "win-a", "10.0.0.1"), other, controllertest.Instance("win-a", "User", "", "10.0.0.2"))
	place := *w.clusterAPI.place.Load()
	place.namespace = "team-a" // as spec.clusterAPI of WindowsConfig names it
	w.clusterAPI.place.Store(&place)
	for range 2 {
		w.pass()
		w.expect("win-a User 10.0.0.2", "win-a-32f54f ClusterAPI 10.0.0.3", "win-a-d9eb88 Machine 10.0.0.1")
	}
	w.expectEvent("Normal", api.EventInstanceSetup, "win-a created WindowsInstance win-a-d9eb88")
	long := controllertest.Instance(strings.Repeat("a", 245)+".abcdefg", "", "", "10.0.0.1")
	if name := alternativeName("Machine", long); len(name) > maxName || strings.Contains(name, ".-") {
		t.Errorf("the other name of %s is %s", long.Name, name)
	}
}

// TestHostOfSeveralSourcesIsOneInstance tests the rules of type Ownership, each case with all sources in both orders.
func TestHostOfSeveralSourcesIsOneInstance(t *testing.T) {
	const host = "10.0.0.1"
	mapi, capi := aMachine("machine", "m", host), aMachine("cluster", "c", host)
	users := controllertest.Instance("users", "User", "", host)
	byName := controllertest.Instance("users", "", "", "host.example")
	elsewhere := controllertest.Instance("users", "User", "", "10.9.9.9")
	elsewhere.Status.NodeIP = host
	tests := map[string]struct {
		objects []client.Object
		want    string
		loser   []string // words of the event of a losing object
	}{
		"user's instance before a Machine":                    {[]client.Object{users, mapi}, "users User 10.0.0.1", []string{"Warning", " m ", "WindowsInstance users"}},
		"user's instance by name before a Machine":            {[]client.Object{byName, mapi}, "users  host.example", []string{"Warning", " m ", "WindowsInstance users"}},
		"user's instance at another address before a Machine": {[]client.Object{elsewhere, capi}, "users User 10.9.9.9", []string{"Warning", " c ", "WindowsInstance users"}},
		"user's instance before an entry":                     {[]client.Object{users, userMap(host)}, "users User 10.0.0.1", []string{"Warning", "windows-instances", "WindowsInstance users"}},
		"Machine API before Cluster API":                      {[]client.Object{mapi, capi}, "m Machine 10.0.0.1", []string{"Warning", " c ", " already belongs to "}},
		"Machine API before an entry":                         {[]client.Object{mapi, userMap(host)}, "m Machine 10.0.0.1", []string{"Warning", "windows-instances", " already belongs to "}},
		"Cluster API before an entry by name":                 {[]client.Object{capi, userMap("host.example")}, "c ClusterAPI 10.0.0.1", []string{"Warning", "windows-instances"}},
		"existing instance of an entry before a Machine": {[]client.Object{controllertest.Instance(host, "ConfigMap", "", host), userMap(host), mapi}, "10.0.0.1 ConfigMap 10.0.0.1",
			[]string{"Warning", " m ", "WindowsInstance 10.0.0.1"}},
		"existing instance of Cluster API before the Machine API": {[]client.Object{controllertest.Instance("c", "ClusterAPI", "openshift-cluster-api/c", host), capi, mapi}, "c ClusterAPI 10.0.0.1",
			[]string{"Warning", " m ", "WindowsInstance c"}},
		"first of two Machines": {[]client.Object{aMachine("machine", "b", host), aMachine("machine", "a", host)}, "a Machine 10.0.0.1", []string{"Warning", " b ", " already belongs to "}},
	}
	for name, test := range tests {
		for _, order := range []string{"forward", "backward"} {
			t.Run(name+" "+order, func(t *testing.T) {
				w := newSources(t)
				for _, o := range test.objects {
					w.must(w.Create(t.Context(), o.DeepCopyObject().(client.Object)))
				}
				if order == "backward" { // sources of lower priority reconcile first
					if _, err := w.configMap.Reconcile(t.Context(), reconcile.Request{}); err != nil {
						t.Fatal(err)
					}
					w.passOf(w.clusterAPI)
				}
				w.pass()
				w.pass()
				w.expect(test.want)
				w.expectEvent(test.loser...)
			})
		}
	}
}

func TestHostPassesToNextSource(t *testing.T) {
	users := controllertest.Instance("users", "User", "", "10.0.0.1")
	w := newSources(t, users, aMachine("machine", "m", "10.0.0.1"), userMap("10.0.0.1"))
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: MachineAPINamespace, Name: "m"}}
	if r, err := w.machineAPI.Reconcile(t.Context(), request); err != nil || r.RequeueAfter != recheckInterval {
		t.Errorf("got %+v, %v; want a requeue after %s", r, err, recheckInterval)
	}
	w.must(w.Delete(t.Context(), users))
	events := len(w.Events)
	if r, err := w.machineAPI.Reconcile(t.Context(), request); err != nil || r.RequeueAfter != leavingInterval || len(w.Events) != events {
		t.Errorf("while the host leaves: got %+v, %v, events %q; want a requeue after %s and no events", r, err, w.Events[events:], leavingInterval)
	}
	w.leave()
	w.pass()
	w.expect("m Machine 10.0.0.1")
}

// Two sources may reconcile before either observes the other's instance.
func TestReservationPreventsSecondInstance(t *testing.T) {
	w := newSources(t, aMachine("machine", "m", "10.0.0.1"))
	if holder, ok := w.machineAPI.Hosts.reserve(netip.MustParseAddr("10.0.0.1"), types.NamespacedName{Namespace: "ns", Name: "other"}, time.Now()); !ok {
		t.Fatalf("the host is %s's", holder)
	}
	w.pass()
	w.expect()
	w.expectEvent("Warning", " m ", "WindowsInstance other")
}

// OpenShift can move a Machine from one API to the other and back: the node must not notice.
func TestMachineMovedToOtherAPIKeepsInstance(t *testing.T) {
	inMachineAPI, inClusterAPI := aMachine("machine", "win-a", "10.0.0.1"), aMachine("cluster", "win-a", "10.0.0.1")
	w := newSources(t, inMachineAPI, inClusterAPI)
	owner := func(api string) {
		t.Helper()
		inMachineAPI.Object["spec"] = map[string]any{"authoritativeAPI": api}
		w.must(w.Update(t.Context(), inMachineAPI))
		inClusterAPI.SetAnnotations(nil)
		if api == "MachineAPI" {
			inClusterAPI.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": "true"})
		}
		w.must(w.Update(t.Context(), inClusterAPI))
	}
	for range 2 {
		owner("MachineAPI")
		w.pass()
		w.expect("win-a Machine 10.0.0.1")
		owner("ClusterAPI")
		w.pass()
		w.pass()
		w.expect("win-a ClusterAPI 10.0.0.1")
	}
	w.must(w.Delete(t.Context(), inMachineAPI))
	w.pass()
	w.expect("win-a ClusterAPI 10.0.0.1")
	for _, e := range w.Events {
		if strings.HasPrefix(e, "Warning") || strings.Contains(e, "removed") {
			t.Errorf("unexpected event %s", e)
		}
	}
	// A mirror that is not paused yet requests nothing while the other one is authoritative.
	owner2 := aMachine("machine", "win-b", "10.0.0.2")
	w.must(w.Create(t.Context(), owner2))
	w.must(w.Create(t.Context(), aMachine("cluster", "win-b", "10.0.0.2")))
	writes := w.writes
	w.pass()
	w.pass()
	w.expect("win-a ClusterAPI 10.0.0.1", "win-b Machine 10.0.0.2")
	if w.writes != writes+1 {
		t.Errorf("%d writes, want one", w.writes-writes)
	}
}
