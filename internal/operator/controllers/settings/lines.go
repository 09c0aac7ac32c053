package settings

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// setEndOfSupport sets a condition for each of Kubernetes and containerd whose release line is no longer supported. For Kubernetes on
// OpenShift, the version of OpenShift counts.
func setEndOfSupport(conditions *[]metav1.Condition, current kubeversions.Release, openShift bool, now time.Time, generation int64) {
	for _, component := range []struct {
		product, version, condition, reason, remedy string
		onOpenShift                                 bool
	}{
		{lifecycle.Kubernetes, current.Kubelet, api.ConditionKubernetesUnsupported, api.ReasonEndOfSupport, "nodes have kubelet %s; upgrade the cluster", openShift},
		{lifecycle.Containerd, current.Containerd, api.ConditionContainerdUnsupported, api.ReasonContainerdEndOfSupport, "nodes get containerd %s; upgrade the operator", false},
	} {
		line, known, err := lifecycle.OfVersion(component.product, component.version)
		if err != nil {
			continue // the payload has no such program
		}
		if component.onOpenShift {
			line, known = lifecycle.OpenShiftLine(line)
		}
		if !known || !line.Ended(now) {
			meta.RemoveStatusCondition(conditions, component.condition)
			continue
		}
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: component.condition, Status: metav1.ConditionTrue, Reason: component.reason, ObservedGeneration: generation,
			Message: fmt.Sprintf("%s %s has had no fixes since %s (%s); "+component.remedy, line.Product, line.Name, line.Ends.Format(time.DateOnly), line.Source, component.version),
		})
	}
}

// supportEnds is the metric of when support ends for the components that nodes report.
type supportEnds struct {
	kube.Gauges
	// openShift is whether the cluster is OpenShift; nil until that is known.
	openShift atomic.Pointer[bool]
}

func newSupportEnds(c client.Reader) *supportEnds {
	e := &supportEnds{}
	e.Gauges = kube.NewGauges(func(ctx context.Context, sample kube.Sample) error {
		nodes, err := kube.WindowsNodes(ctx, c)
		for i := range nodes {
			for _, line := range e.linesOf(&nodes[i]) {
				sample(api.MetricSupportEnd, float64(line.EndOfSupport().Unix()), nodes[i].Name, line.Product, line.Name)
			}
		}
		return err
	}, api.MetricSupportEnd)
	return e
}

// linesOf returns the release lines of a node's components whose end of support is known.
func (e *supportEnds) linesOf(node *corev1.Node) (lines []lifecycle.Line) {
	add := func(line lifecycle.Line, known bool) {
		if known {
			lines = append(lines, line)
		}
	}
	info := node.Status.NodeInfo
	if openShift := e.openShift.Load(); openShift != nil {
		line, known, _ := lifecycle.OfVersion(lifecycle.Kubernetes, info.KubeletVersion)
		if *openShift {
			line, known = lifecycle.OpenShiftLine(line)
		}
		add(line, known)
	}
	line, known, _ := lifecycle.OfVersion(lifecycle.Containerd, strings.TrimPrefix(info.ContainerRuntimeVersion, "containerd://"))
	add(line, known)
	r, _ := windowsbuild.ReleaseOf(nodestate.WindowsBuild(node))
	add(lifecycle.Of(lifecycle.WindowsServer, r.Version))
	return lines
}
