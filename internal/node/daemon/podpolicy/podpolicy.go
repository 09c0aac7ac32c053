package podpolicy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

const (
	// reconcileInterval is how often endpoints are checked without a notification, settleTime how long a change may wait for others.
	reconcileInterval = 10 * time.Second
	settleTime        = 100 * time.Millisecond
	// A pass reads all endpoints: it takes at most one part in checkShare of the time, unless the interval would exceed maxInterval.
	checkShare  = 5
	maxInterval = time.Minute
	// readTimeout is the timeout of all reads of a pass, writeTimeout of one write.
	readTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second
	// A new pod looks for its endpoint after pauses between these.
	findSoon, findInterval = 50 * time.Millisecond, time.Second
)

// Reconciler keeps the ACLs of this host's pods as their NetworkPolicies require.
type Reconciler struct {
	state.Session
	// policies are those of the session. Its Mode is empty if no NetworkPolicies are enforced.
	policies desired.Policies
	sets     *sets
	pods     pods
	memory   *memory
	network  network
	turns    turns
	report   report
	// pending is sent to when something has changed.
	pending state.Signal
}

// New returns a Reconciler, which sends wake when there is something to report.
func New(s state.Session, wake state.Signal, metrics *nodestatus.Metrics) *Reconciler {
	r := &Reconciler{Session: s, pending: state.NewSignal(), network: network{addresses: map[string]netip.Addr{}}, report: report{wake: wake, metrics: metrics, log: s.Log}}
	if s.Wanted.Policies != nil {
		r.policies = *s.Wanted.Policies
	}
	r.sets = newSets(s, r.pending.Send)
	var err error
	if r.memory, err = newMemory(s.Host.Disk); err != nil {
		s.Log.Warn("Reading which endpoints have rules failed; they are found again by their pods", "error", err.Error())
	}
	return r
}

// enforces reports whether rules are written.
func (r *Reconciler) enforces() bool { return r.policies.Mode == desired.PolicyEnforce }

// Follow follows the sets in the cluster until ctx is done.
func (r *Reconciler) Follow(ctx context.Context, client *apiclient.Client) {
	if r.policies.Mode != "" {
		r.sets.follow(ctx, client)
	}
}

// Run reconciles until ctx is done. If no NetworkPolicies are enforced, it removes the rules that WICD has written.
func (r *Reconciler) Run(ctx context.Context) {
	if r.policies.Mode == "" {
		r.warn("Removing the stored policies failed", r.sets.removeAll())
		if r.memory.isEmpty() {
			return
		}
	} else {
		r.warn("Reading the stored policies failed", r.sets.load())
	}
	var changes <-chan struct{}
	for retry := newRetry(); ctx.Err() == nil; {
		if changes == nil {
			var err error
			if changes, err = r.Host.Networks.Watch(ctx); err != nil {
				r.warn("Watching the Host Network Service failed; polling", err)
			}
		}
		began := time.Now()
		again, err := r.reconcile(ctx)
		if ctx.Err() != nil || r.policies.Mode == "" && r.memory.isEmpty() {
			return
		}
		duration := time.Since(began)
		wait := max(reconcileInterval, min(checkShare*duration, maxInterval))
		if err != nil {
			wait = retry.Next()
		} else if retry = newRetry(); !again.IsZero() {
			wait = min(wait, max(time.Until(again), settleTime))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case <-r.pending:
			_ = backoff.Sleep(ctx, settleTime)
		case _, open := <-changes:
			if !open {
				changes = nil
			}
		}
	}
}

func newRetry() *backoff.Backoff { return backoff.Between(time.Second, reconcileInterval) }

func (r *Reconciler) warn(what string, err error) {
	if err != nil {
		r.Log.Warn(what, "error", err.Error())
	}
}

// reconcile compares all endpoints once, and writes what differs. again is when a write that has to wait is due.
func (r *Reconciler) reconcile(ctx context.Context) (again time.Time, err error) {
	var problems []string
	if r.policies.Mode != "" {
		problems = r.readPods()
	}
	s, err := r.observe(ctx, false)
	if err != nil {
		r.report.update(findings{problems: append(problems, err.Error())}, false)
		return again, err
	}
	began, p := s.sets, s.decide()
	r.settle(s, p)
	for _, d := range p.writes {
		_, err := r.apply(ctx, d.endpoint, s, false)
		if ctx.Err() != nil {
			return again, ctx.Err()
		}
		if err != nil && !errors.Is(err, hns.ErrNotFound) {
			r.Log.Warn("Applying NetworkPolicies failed", "endpoint", d.endpoint.ID, "error", err.Error())
		}
	}
	r.complete(&s)
	after := s.decide()
	r.measure(began, s, after)
	f := after.findings()
	f.problems = append(f.problems, problems...)
	r.report.update(f, true)
	return p.again, nil
}

// readPods reads the pods of this host, and follows the sets of their namespaces.
func (r *Reconciler) readPods() (problems []string) {
	unreadable, err := r.pods.read(r.Host.Disk)
	switch {
	case err != nil:
		problems = append(problems, err.Error())
	case unreadable > 0:
		problems = append(problems, fmt.Sprintf("%d cached results of network plugins could not be read: their pods are unknown", unreadable))
	}
	r.warn("Removing the stored policies of namespaces without pods failed", r.sets.keep(namespaces(r.pods.all())))
	return problems
}

// settle records which endpoints have rules, or are about to get some, and forgets those that are gone.
func (r *Reconciler) settle(s situation, p plan) {
	listed := map[string]bool{}
	for _, e := range s.endpoints {
		listed[e.ID] = true
	}
	var withRules []string
	for _, d := range p.decisions {
		if d.applies && len(d.acls) > 0 {
			withRules = append(withRules, d.endpoint.ID)
		}
	}
	r.warn("Recording which endpoints have rules failed",
		errors.Join(r.memory.forget(r.memory.absent(listed)...), r.memory.remember(withRules...)))
	for _, d := range p.decisions {
		if isDue, _ := s.isDue(d); d.applies && !isDue {
			r.memory.settle(d.endpoint.ID, d.acls)
		}
	}
}

// apply writes the rules of an endpoint if they differ from what was seen. It decides by the newest sets and pods, so that no write can be
// followed by an older one. A write that has to wait is left to a later pass, unless it is urgent.
func (r *Reconciler) apply(ctx context.Context, endpoint hns.Endpoint, s situation, isUrgent bool) (d decision, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	release, err := r.turns.take(ctx, endpoint.ID)
	if err != nil {
		return d, err
	}
	defer release()
	r.complete(&s)
	d = s.rulesOf(endpoint)
	if isDue, notBefore := s.isDue(d); !isDue || !isUrgent && notBefore.After(s.now) {
		return d, nil
	}
	if len(d.acls) > 0 {
		if err := r.memory.remember(endpoint.ID); err != nil { // otherwise they could not be removed later
			return d, err
		}
	}
	err = r.Host.EndpointACLs.SetACLs(ctx, endpoint.ID, d.acls)
	if errors.Is(err, hns.ErrNotFound) {
		return d, err
	}
	isRepeated := r.memory.record(endpoint.ID, d.acls, err)
	switch {
	case err != nil:
		r.report.countFailure()
	case len(d.acls) == 0:
		err = r.memory.forget(endpoint.ID)
	case isRepeated:
		r.readEcho(ctx, d)
	}
	return d, err
}

// readEcho reads what the service returns for rules that it did not return as they were written.
func (r *Reconciler) readEcho(ctx context.Context, d decision) {
	if all, err := r.Host.EndpointACLs.ACLs(ctx); err == nil && isEcho(all[d.endpoint.ID], d.acls) {
		r.memory.setEcho(d.endpoint.ID, all[d.endpoint.ID])
	}
}

// Add applies the rules of a new pod, whose containers may start when it returns without an error: its rules are in force. It waits until the
// set of the pod's namespace has been read and the pod has an endpoint, or until ctx is done. Repeating it changes nothing. If no NetworkPolicies are
// enforced, it returns at once.
func (r *Reconciler) Add(ctx context.Context, request policypipe.Request) error {
	if !r.enforces() {
		return nil
	}
	p, err := r.pods.announce(request)
	if err != nil {
		return err
	}
	if err := r.sets.await(ctx, p.Namespace); err != nil {
		return err
	}
	for pauses := backoff.Between(findSoon, findInterval); ; {
		err := r.applyTo(ctx, p)
		if err == nil {
			return nil
		}
		if backoff.Sleep(ctx, pauses.Next()) != nil {
			return fmt.Errorf("applying the NetworkPolicies of pod %s: %w", p, err)
		}
	}
}

// applyTo applies the rules of one pod.
func (r *Reconciler) applyTo(ctx context.Context, p pod) error {
	s, err := r.observe(ctx, true)
	if err != nil {
		return err
	}
	err = fmt.Errorf("no endpoint of the Host Network Service has address %s", p.Addresses[0])
	for _, e := range s.endpoints {
		if !slices.Contains(p.Addresses, e.Address) {
			continue
		}
		var d decision
		if d, err = r.apply(ctx, e, s, true); err == nil && d.pod.Container != p.Container {
			err = fmt.Errorf("pod %s now has its address %s", d.pod, e.Address)
		}
		if err != nil {
			return err
		}
	}
	return err
}
