package instance

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/join"
)

// pass is one reconcile of one instance: what is known of it, and what the steps have made of it.
type pass struct {
	*view
	id       types.NamespacedName
	status   *status
	decision join.Decision
	// attempted says that a join was run.
	attempted bool
}

// outcome is what follows a step.
type outcome int

const (
	proceed outcome = iota // the next step
	finish                 // the status is written
	abandon                // nothing: the instance is gone, or nothing was found out
)

// close gives back what a pass has.
func (p *pass) close() {
	if p.view != nil {
		_ = p.admission.Close()
	}
}

// noteFailure notes what failed just now, and how often it has. Of a repair, it is noted with each join: whether that helped shows
// later, and then the note goes.
func noteFailure(st *v1alpha1.WindowsInstanceStatus, f v1alpha1.Failure) {
	f.At, f.Attempts = metav1.Now(), 1
	if st.Failure != nil && st.Failure.Action == f.Action {
		f.Attempts += st.Failure.Attempts
	}
	st.Failure = &f
}

// isSilent says whether the host did not answer the last time.
func isSilent(i *v1alpha1.WindowsInstance) bool {
	return meta.IsStatusConditionFalse(i.Status.Conditions, api.ConditionReachable)
}
