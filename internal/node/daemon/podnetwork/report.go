package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/overlaystatus"
)

// repaired reports a repair in the log, the journal, a metric and an event of the Node.
func (n *reconciliation) repaired(format string, args ...any) {
	n.RecordChange(format, args...)
	n.metrics.CountRepair()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.repairs = append(n.repairs, nodestatus.Problem{Service: n.want.Proxy, Reason: api.ReasonNetworkRepaired, Message: fmt.Sprintf(format, args...), Since: time.Now()})
	n.repairs = n.repairs[max(0, len(n.repairs)-maxRepairs):]
}

// readStatus reads why the service that creates the network does not work. An unreadable file yields no problems.
func (n *reconciliation) readStatus() []overlaystatus.Problem {
	if n.want.StatusFile == "" {
		return nil
	}
	b, err := n.Host.Disk.Read(n.want.StatusFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var status overlaystatus.Status
	if err == nil {
		status, err = overlaystatus.Decode(b)
	}
	if text := fmt.Sprint(err); err != nil && text != n.statusError {
		n.statusError = text
		n.Log.Warn("Reading the status of the network failed", "file", n.want.StatusFile, "error", text)
	}
	return status.Problems
}

// announce queues an event for each new problem that the service that creates the network reports, and for each new limit or notice.
func (n *reconciliation) announce(p networkPlan, creator []overlaystatus.Problem) {
	reported := map[string]string{}
	for _, problem := range creator {
		reported[problem.Reason] = problem.Message
	}
	for _, notice := range slices.Concat(p.limits, p.notices) {
		reported[notice.reason] = strings.TrimPrefix(reported[notice.reason]+"; "+notice.message, "; ")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(reported)) {
		if _, wasAnnounced := n.announced[reason]; !wasAnnounced {
			n.repairs = append(n.repairs, nodestatus.Problem{Service: n.want.MadeBy, Reason: reason, Message: reported[reason], Since: time.Now()})
		}
	}
	n.announced = reported
	n.repairs = n.repairs[max(0, len(n.repairs)-maxRepairs):]
}

// maxRepairs is how many repairs are kept for the Node while the API server does not answer.
const maxRepairs = 10

// networkState is the last known state of the network.
type networkState struct {
	known           bool
	reason, message string
	// isFault is false if the network works despite the reason.
	isFault bool
}

// setNetwork stores the state and reports whether there is something new for the Node.
func (r *Reconciler) setNetwork(p networkPlan) (changed bool) {
	reason, message, isFault := p.message()
	current := networkState{known: true, reason: reason, message: message, isFault: isFault}
	r.metrics.SetNetwork(isFault)
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = r.network != current || len(r.repairs) > 0
	r.network = current
	return changed
}

// ReportTo reports to the Node whether its network works, and what was repaired.
func (r *Reconciler) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	r.mu.Lock()
	current, repairs := r.network, slices.Clone(r.repairs)
	r.mu.Unlock()
	if current.known {
		if err := w.SetCondition(ctx, node, current.condition()); err != nil {
			return err
		}
	}
	if err := w.CreateEvents(ctx, node, repairs); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repairs = slices.DeleteFunc(r.repairs, func(p nodestatus.Problem) bool { return slices.Contains(repairs, p) })
	return nil
}

// condition returns condition WindowsNetworkUnavailable.
func (s networkState) condition() corev1.NodeCondition {
	c := corev1.NodeCondition{
		Type: api.ConditionWindowsNetworkUnavailable, Status: corev1.ConditionFalse, Reason: api.ReasonNetworkWorks,
		Message: "networks, endpoints and load balancers work",
	}
	if s.reason != "" {
		c.Reason, c.Message = s.reason, s.message
	}
	if s.isFault {
		c.Status = corev1.ConditionTrue
	}
	return c
}
