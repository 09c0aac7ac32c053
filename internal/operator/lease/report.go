package lease

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// Interval of updates of the condition while this operator stands by, and the time limit of a write.
const (
	reportInterval = 10 * time.Second
	reportTimeout  = 5 * time.Second
)

// Report sets condition AnotherOperator of WindowsConfig while this operator stands by, and removes it afterwards. It is a Runnable of the manager
// that runs without the Lease.
type Report struct {
	Lock   *Lock
	Reader client.Reader
	Writer client.StatusClient
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *Report) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (r *Report) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			if r.Lock.First() == "" {
				return nil
			}
			ctx = context.WithoutCancel(ctx) // the operator stops, and so stands by no longer
			r.write(ctx, "")
			return nil
		case <-r.Lock.Taken():
			r.write(ctx, "") // an operator that stands by sets it again
			return nil
		case <-time.After(reportInterval):
			if first := r.Lock.First(); first != "" {
				r.write(ctx, first)
			}
		}
	}
}

// write sets or removes the condition, if WindowsConfig exists.
func (r *Report) write(ctx context.Context, first string) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	condition := metav1.Condition{Type: api.ConditionAnotherOperator}
	if first != "" {
		condition.Status, condition.Reason = metav1.ConditionTrue, api.ReasonAnotherOperatorInstalled
		condition.Message = fmt.Sprintf("the operator in namespace %s stands by, because the one in namespace %s manages the Windows nodes of this cluster; uninstall one of them",
			r.Lock.namespace, first)
	}
	if err := kube.WriteCondition(ctx, r.Reader, r.Writer, condition); err != nil {
		log.FromContext(ctx).Info("Writing condition "+api.ConditionAnotherOperator+" failed", "error", err.Error())
	}
}
