package instance

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"slices"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// pass is one reconcile of one instance: its state, and the results of the steps.
type pass struct {
	*view
	id       types.NamespacedName
	status   *statusWriter
	decision join.Decision
	// attempted means that a join was run.
	attempted bool
}

// outcome is what follows a step.
type outcome int

const (
	proceed outcome = iota // run the next step
	finish                 // write the status
	abandon                // do nothing: the instance is gone, or nothing was learned
)

func (p *pass) close() {
	if p.view != nil {
		_ = p.admission.Close()
	}
}

// recordFailure records a failure and how often it has occurred. A repair is recorded at each join, and the record is removed once the repair has
// helped.
func recordFailure(st *v1alpha1.WindowsInstanceStatus, f v1alpha1.Failure) {
	f.At, f.Attempts = metav1.Now(), 1
	if st.Failure != nil && st.Failure.Action == f.Action {
		f.Attempts += st.Failure.Attempts
		for _, kb := range st.Failure.Updates { // those of an earlier failure stay blocked
			if !slices.Contains(f.Updates, kb) && len(f.Updates) < maxInstalledUpdates {
				f.Updates = append(slices.Clone(f.Updates), kb)
			}
		}
	}
	st.Failure = &f
}

// isSilent reports whether the host did not answer last time.
func isSilent(i *v1alpha1.WindowsInstance) bool {
	return meta.IsStatusConditionFalse(i.Status.Conditions, api.ConditionReachable)
}
