//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// workloadsWork is the condition that something outside of the operator sets on nodes, by which an update is judged.
const workloadsWork = "lab.example.com/WorkloadsWork"

// TestBadUpdateIsUninstalled installs an update with which workloads do not work. The host gets its former revision of Windows back, and returns to
// service. It takes the 15 minutes after which the operator gives up.
func TestBadUpdateIsUninstalled(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	const month, revision = 4, 6000
	p := newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab})
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Rollout.ReadinessGates = []string{workloadsWork}
		s.WindowsUpdates.Policy, s.WindowsUpdates.Rollback = v1alpha1.UpdatesInstall, v1alpha1.UpdateRollbackUninstall
	})
	p.joinAll()
	p.judge(revision)
	before := p.boots()[0]
	p.publish(1, monthly(month, revision))
	testenv.Eventually(t, 30*time.Minute, "the update has failed, and the node is in service without it", func(context.Context) string {
		instance, node := p.instanceOf(earlyNode), p.node(earlyNode)
		f := instance.Status.Failure
		switch {
		case f == nil || instance.Status.Maintenance != nil:
			return fmt.Sprintf("the failure is %+v, the maintenance %+v", f, instance.Status.Maintenance)
		case !slices.Equal(f.Updates, []string{kbOf(month)}) || !strings.Contains(f.Message, "the cumulative update was uninstalled, and the node works again"):
			t.Fatalf("the failure is %+v", f)
		case node.Spec.Unschedulable:
			return "the node is cordoned"
		}
		return notReady(node)
	})
	if got := p.node(earlyNode).Status.NodeInfo.KernelVersion; got != fmt.Sprintf("10.0.%d.%d", lab.Build, lab.Revision) {
		t.Errorf("in the end, its Windows is %s", got)
	}
	if restarts := p.boots()[0] - before; restarts != 2 {
		t.Errorf("the host restarted %d times, want once with the update and once without it", restarts)
	}
}

// judge keeps the condition of the node: workloads work with each revision of Windows but one.
func (p harness) judge(bad int) {
	p.t.Helper()
	p.repeat(time.Second, func(ctx context.Context) {
		var node corev1.Node
		if p.Client.Get(ctx, client.ObjectKey{Name: earlyNode}, &node) != nil {
			return
		}
		c := corev1.NodeCondition{Type: workloadsWork, Status: corev1.ConditionTrue, Reason: "Judged"}
		if strings.HasSuffix(node.Status.NodeInfo.KernelVersion, fmt.Sprintf(".%d", bad)) {
			c.Status = corev1.ConditionFalse
		}
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == workloadsWork })
		if i >= 0 && node.Status.Conditions[i].Status == c.Status {
			return
		}
		original := node.DeepCopy()
		node.Status.Conditions = append(slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == workloadsWork }), c)
		_ = p.Client.Status().Patch(ctx, &node, client.StrategicMergeFrom(original)) // again in a second
	})
}
