//go:build linux

package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func node(name, os string, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os}}}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	return n
}

func TestTaintsAreChangedAndRestored(t *testing.T) {
	ctx := t.Context()
	before := map[string][]string{"win": {"os", "gpu"}, "bare": nil, "linux": nil, "tainted": {"gpu"}, "control-plane": {controlPlane}}
	clients := fake.NewClientset(
		node("win", "windows", "os", "gpu"), node("bare", "windows"), node("linux", "linux"), node("tainted", "linux", "gpu"), node("control-plane", "linux", controlPlane))
	taints := func() map[string][]string {
		all := map[string][]string{}
		list, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list.Items {
			all[n.Name] = nil
			for _, taint := range n.Spec.Taints {
				all[n.Name] = append(all[n.Name], taint.Key)
			}
		}
		return all
	}
	want := map[string][]string{"win": {"gpu"}, "bare": nil, "linux": {linuxTaint}, "tainted": {"gpu", linuxTaint}, "control-plane": {controlPlane}}
	for range 2 { // the second time, like after a killed run
		if err := placePods(ctx, clients); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, taints()); diff != "" {
			t.Errorf("taints during the run (-want +got):\n%s", diff)
		}
	}
	for range 2 {
		if err := restoreTaints(ctx, clients); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, taints()); diff != "" {
			t.Errorf("taints after the run (-want +got):\n%s", diff)
		}
	}
	list, _ := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	for _, n := range list.Items {
		if _, left := n.Annotations[taintsBefore]; left {
			t.Errorf("node %s still has annotation %s", n.Name, taintsBefore)
		}
	}
}

// TestSuiteAndControlPlaneHaveSameVersion compares the modules from which both are built.
func TestSuiteAndControlPlaneHaveSameVersion(t *testing.T) {
	version := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^(?:require|\t)\s*k8s\.io/kubernetes (v\S+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s does not require Kubernetes", path)
		}
		return string(found[1])
	}
	if lab, suite := version("../../go.mod"), version("../upstream/go.mod"); lab != suite {
		t.Errorf("got control plane %s and suite %s, want the same version", lab, suite)
	}
}
