// Package lease lets only one operator work in a cluster, however many are installed. The claim is the Lease of leader election, which each operator
// has in its own namespace: an operator takes its Lease only if no other installed operator has worked more recently than itself (decision 28).
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Name is the name of every operator's Lease.
const Name = "windows-machine-config-operator"

// Times of leader election. The API server of a cluster with one control plane node is unavailable for a minute when it is updated, and slow when
// all hosts join: an operator that gives up then is restarted into the same load. Duration and RenewDeadline are those that OpenShift recommends
// (CONVENTIONS.md of github.com/openshift/enhancements); with its RetryPeriod of 26 s, another operator would be detected late.
const (
	Duration      = 137 * time.Second
	RenewDeadline = 107 * time.Second
	RetryPeriod   = 5 * time.Second
)

// renewalCheckInterval is the interval of checks for other operators: when the first is uninstalled, this one takes over at most that much later. A
// Lease that is held is renewed in between.
const renewalCheckInterval = 2 * RetryPeriod

// Operators finds the operators of a cluster.
type Operators interface {
	// Leases returns the Leases with the name Name in all namespaces.
	Leases(ctx context.Context) ([]coordinationv1.Lease, error)
	// IsInstalled reports whether the ServiceAccount of an operator in this namespace has an operator's permissions. Any user may create a Lease in a
	// namespace of their own; only a cluster administrator can grant these permissions.
	IsInstalled(ctx context.Context, namespace string) (bool, error)
}

// Lock is the Lease of this operator. While another operator comes first, an attempt to take the Lease waits.
type Lock struct {
	resourcelock.Interface
	operators Operators
	namespace string
	// holding and renewed concern this operator's Lease: whether this process took it, and when any process last renewed it. They need no lock,
	// because leader election makes one call at a time.
	holding bool
	renewed time.Time

	mu    sync.Mutex
	first string
	// taken is closed once this process has taken the Lease.
	taken chan struct{}
}

// New returns the lock of the operator in a namespace.
func New(lease resourcelock.Interface, operators Operators, namespace string) *Lock {
	return &Lock{Interface: lease, operators: operators, namespace: namespace, taken: make(chan struct{})}
}

// First returns the namespace of the operator that this one waits for; empty if there is none.
func (l *Lock) First() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// Taken returns a channel that is closed when this operator begins to work.
func (l *Lock) Taken() <-chan struct{} { return l.taken }

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.renewed = time.Time{}
	if err == nil {
		l.renewed = record.RenewTime.Time
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.acquire(ctx, r, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if !l.holding && r.HolderIdentity != "" {
		return l.acquire(ctx, r, l.Interface.Update)
	}
	return l.Interface.Update(ctx, r)
}

// acquire takes the Lease by calling write. If two operators do so at once, each sees the other's Lease change and releases its own.
func (l *Lock) acquire(ctx context.Context, r resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	before, err := l.operators.Leases(ctx)
	if err != nil {
		return fmt.Errorf("looking for other operators: %w", err)
	}
	first, err := l.holderBefore(ctx, before)
	if err != nil {
		return err
	}
	if first != "" {
		return l.wait(ctx, first)
	}
	if err := write(ctx, r); err != nil {
		return err
	}
	after, err := l.operators.Leases(ctx)
	if err == nil {
		first, err = l.find(ctx, changed(before, after, l.namespace))
	}
	if err != nil || first != "" {
		r.HolderIdentity, r.LeaseDurationSeconds, r.RenewTime.Time = "", 1, l.renewed
		if err == nil {
			err = fmt.Errorf("the operator in namespace %s started at the same time", first)
		}
		return errors.Join(err, l.Interface.Update(ctx, r))
	}
	l.holding = true
	l.set(ctx, "")
	close(l.taken)
	return nil
}

// wait returns once the operator in namespace first no longer comes first. Then the attempt to take the Lease is repeated.
func (l *Lock) wait(ctx context.Context, first string) error {
	for first != "" {
		l.set(ctx, first)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(renewalCheckInterval):
		}
		leases, err := l.operators.Leases(ctx)
		if err != nil {
			continue
		}
		if next, err := l.holderBefore(ctx, leases); err == nil {
			first = next
		}
	}
	return errors.New("no other operator takes precedence now: trying again")
}

// holderBefore returns the namespace of the operator that comes before this one: one that has worked more recently according to its Lease, or one that
// is renewing its Lease, because the clocks of two nodes can differ.
func (l *Lock) holderBefore(ctx context.Context, leases []coordinationv1.Lease) (namespace string, err error) {
	namespace, err = l.find(ctx, laterThan(leases, l.namespace, l.renewed))
	if err != nil || namespace != "" {
		return namespace, err
	}
	held := slices.DeleteFunc(slices.Clone(leases), func(o coordinationv1.Lease) bool {
		return o.Namespace == l.namespace || o.Spec.HolderIdentity == nil || *o.Spec.HolderIdentity == ""
	})
	if namespace, err = l.find(ctx, held); err != nil || namespace == "" {
		return "", err
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(renewalCheckInterval):
	}
	after, err := l.operators.Leases(ctx)
	if err != nil {
		return "", fmt.Errorf("looking for other operators: %w", err)
	}
	return l.find(ctx, changed(leases, after, l.namespace))
}

func (l *Lock) set(ctx context.Context, first string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first != "" && first != l.first {
		log.FromContext(ctx).Info("Standing by: another operator manages the Windows nodes of this cluster", "itsNamespace", first, "namespace", l.namespace)
	}
	l.first = first
}

// find returns the namespace of the first of these Leases whose operator is installed; empty if there is none.
func (l *Lock) find(ctx context.Context, leases []coordinationv1.Lease) (namespace string, err error) {
	for _, lease := range leases {
		installed, err := l.operators.IsInstalled(ctx, lease.Namespace)
		if err != nil {
			return "", fmt.Errorf("checking whether an operator is installed in namespace %s: %w", lease.Namespace, err)
		}
		if installed {
			return lease.Namespace, nil
		}
	}
	return "", nil
}

// laterThan returns the Leases of other namespaces that were renewed after the given time, latest first.
func laterThan(all []coordinationv1.Lease, own string, renewed time.Time) []coordinationv1.Lease {
	later := slices.DeleteFunc(slices.Clone(all), func(l coordinationv1.Lease) bool { return l.Namespace == own || !renewal(l).After(renewed) })
	slices.SortFunc(later, func(a, b coordinationv1.Lease) int {
		return cmp.Or(renewal(b).Compare(renewal(a)), cmp.Compare(a.Namespace, b.Namespace))
	})
	return later
}

// changed returns the Leases of other namespaces that were taken or renewed in between.
func changed(before, after []coordinationv1.Lease, own string) []coordinationv1.Lease {
	previous := map[string]time.Time{}
	for _, l := range before {
		previous[l.Namespace] = renewal(l)
	}
	return slices.DeleteFunc(slices.Clone(after), func(l coordinationv1.Lease) bool {
		return l.Namespace == own || renewal(l).Equal(previous[l.Namespace])
	})
}

// renewal returns when a Lease was last renewed; zero if never.
func renewal(l coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}
