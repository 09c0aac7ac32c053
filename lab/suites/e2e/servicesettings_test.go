//go:build linux

package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// serviceSettings changes command lines of services, the kubelet's configuration and the taint of the node, with the real programs. Pods must continue
// to run.
func (c closedNetwork) serviceSettings() {
	before := c.expectServing("after", 1)
	c.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Taint = v1alpha1.TaintLowerCase
		s.Kubelet.PriorityClass = "HIGH_PRIORITY_CLASS"
		s.Kubelet.ShutdownGracePeriod, s.Kubelet.ShutdownGracePeriodCriticalPods = "20s", "10s"
		s.Logs.Verbosity = map[string]v1alpha1.LogVerbosity{"kubelet": v1alpha1.LogDebug, "containerd": v1alpha1.LogDebug}
	})
	c.expectArrived([]joiningHost{{at: c.Hosts()[0]}})
	c.expectReady(c.name)
	eventuallyOf(c.harness, "the node has the other taint", types.NamespacedName{Name: c.Hosts()[0].Name}, func(node *corev1.Node) string {
		values := ""
		for _, t := range node.Spec.Taints {
			if t.Key == api.TaintKey {
				values += t.Value
			}
		}
		if values != api.TaintValueLowerCase {
			return fmt.Sprintf("got taints %v", node.Spec.Taints)
		}
		return ""
	})
	services := c.servicesOf(c.host)
	const want = " --windows-priorityclass=HIGH_PRIORITY_CLASS --v=4 "
	if got := services["kubelet"].Command; !strings.Contains(got, want) {
		c.t.Errorf("command of the kubelet: got %q, want %q in it", got, want)
	}
	if got := services["containerd"].Command; !strings.HasSuffix(got, " --log-level debug") {
		c.t.Errorf("command of containerd: got %q, want log level debug", got)
	}
	c.expectServing("after", 1)
	c.expectSameContainers(before)
}
