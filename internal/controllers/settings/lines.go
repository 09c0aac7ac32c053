package settings

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/lifecycle"
	"github.com/windows-machine-config/wmco/internal/release"
)

// setEndOfSupport tells of a line of Kubernetes that nobody fixes any more. Clusters of OpenShift hear nothing: theirs is fixed for longer.
func setEndOfSupport(conditions *[]metav1.Condition, current release.Release, openShift bool, now time.Time, generation int64) {
	kubelet, err := version.ParseGeneric(current.Kubelet)
	if err != nil {
		return // the payload has no kubelet
	}
	line, known := lifecycle.Of(lifecycle.Kubernetes, fmt.Sprintf("%d.%d", kubelet.Major(), kubelet.Minor()))
	if !known || openShift || !line.Ended(now) {
		meta.RemoveStatusCondition(conditions, api.ConditionKubernetesUnsupported)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: api.ConditionKubernetesUnsupported, Status: metav1.ConditionTrue, Reason: api.ReasonEndOfSupport, ObservedGeneration: generation,
		Message: fmt.Sprintf("Kubernetes %s has had no fixes since %s (%s); nodes have kubelet %s; upgrade the cluster",
			line.Name, line.Ends.Format(time.DateOnly), line.Source, current.Kubelet),
	})
}
