package source

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

func TestProviderIDMismatchIsReported(t *testing.T) {
	const running = "status: {phase: Running, addresses: [{type: InternalIP, address: 10.0.0.1}]}"
	for _, test := range []struct {
		group, source, machine, node string
		reported                     bool
	}{
		{"machine", api.SourceMachine, "aws:///a/i-1", "aws:///a/i-1", false},
		{"machine", api.SourceMachine, "aws:///a/i-1", "aws:///a/i-2", true},
		{"cluster", api.SourceClusterAPI, "aws:///a/i-1", "aws:///a/i-2", true},
		{"cluster", api.SourceClusterAPI, "azure:///subscriptions/S/resourceGroups/R", "azure:///subscriptions/s/resourcegroups/r", false}, // https://github.com/kubernetes-sigs/cluster-api-provider-azure/issues/2533
		{"machine", api.SourceMachine, "", "aws:///a/i-2", false},                                                                          // not known yet
		{"machine", api.SourceMachine, "aws:///a/i-1", "", false},                                                                          // not initialized yet
	} {
		m := aMachine(test.group, "win-a", "10.0.0.1", running, `spec: {providerID: "`+test.machine+`"}`)
		i := controllertest.Instance("win-a", test.source, m.GetNamespace()+"/win-a", "10.0.0.1")
		i.Status.NodeRef = &v1alpha1.NodeReference{Name: "node-a"}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: corev1.NodeSpec{ProviderID: test.node}}
		w := newSources(t, m, i, node)
		w.pass()
		w.expect("win-a " + test.source + " 10.0.0.1")
		if reported := strings.Contains(strings.Join(w.Events, "\n"), api.EventProviderIDDiffers); reported != test.reported {
			t.Errorf("Machine %q, Node %q: reported %v, want %v: %q", test.machine, test.node, reported, test.reported, w.Events)
		}
		s := map[string]*machineSource{api.SourceMachine: w.machineAPI, api.SourceClusterAPI: w.clusterAPI}[test.source]
		if all := s.requestsForNode(t.Context(), node); len(all) != 1 || all[0].Namespace != m.GetNamespace() || all[0].Name != "win-a" {
			t.Errorf("the Node brings %v back", all)
		}
	}
	before, after := &corev1.Node{}, &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "x"}}
	if p := providerIDSet(); !p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) || p.Update(event.UpdateEvent{ObjectOld: after, ObjectNew: after}) {
		t.Error("want a reconcile of the Machine when its node gets a provider ID, and none at heartbeats")
	}
}
