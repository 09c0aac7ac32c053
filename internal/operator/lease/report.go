package lease

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Interval of updates of the condition while this operator stands by, and the time limit of a write.
const (
	reportEvery  = 10 * time.Second
	reportWithin = 5 * time.Second
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
		case <-time.After(reportEvery):
			if first := r.Lock.First(); first != "" {
				r.write(ctx, first)
			}
		}
	}
}

// write sets or removes the condition, if WindowsConfig exists.
func (r *Report) write(ctx context.Context, first string) {
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	var config v1alpha1.WindowsConfig
	err := r.Reader.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return
	}
	if err == nil {
		before := config.DeepCopy()
		set(&config.Status.Conditions, r.Lock.namespace, first, config.Generation)
		if equality.Semantic.DeepEqual(before.Status.Conditions, config.Status.Conditions) {
			return
		}
		// The active operator writes conditions, too: a patch of a stale object must fail, and is retried.
		err = r.Writer.Status().Patch(ctx, &config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		log.FromContext(ctx).Info("Writing condition "+api.ConditionAnotherOperator+" failed", "error", err.Error())
	}
}

// set sets the condition of an operator that waits for the one in namespace first, or removes it if first is empty.
func set(conditions *[]metav1.Condition, namespace, first string, generation int64) {
	if first == "" {
		meta.RemoveStatusCondition(conditions, api.ConditionAnotherOperator)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: api.ConditionAnotherOperator, Status: metav1.ConditionTrue, Reason: api.ReasonAnotherOperatorInstalled, ObservedGeneration: generation,
		Message: fmt.Sprintf("the operator in namespace %s stands by, because the one in namespace %s manages the Windows nodes of this cluster; uninstall one of them",
			namespace, first),
	})
}
