package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// servicesInterval is how often the services are checked without a notification, joinedInterval the wait while a join controls them, and stuckInterval how
// often the files and services that a start waits for are checked.
const (
	servicesInterval = 5 * time.Minute
	joinedInterval   = time.Second
	stuckInterval    = 250 * time.Millisecond
	// unfinishedInterval is the wait before a failed repair is retried, and watchInterval before watching is.
	unfinishedInterval = time.Second
	watchInterval      = 10 * time.Second
	// gatherFor is how long changes are collected before the services are checked again.
	gatherFor = 100 * time.Millisecond
)

// Supervisor keeps the services running and as declared. It checks them when one changes, and periodically.
type Supervisor struct {
	state.Session
	// wake is sent after each check of the services.
	wake  state.Signal
	began time.Time
	// restartRequested is sent when a restart of a service is requested, or an exit is expected.
	restartRequested state.Signal

	mu     sync.Mutex
	health health
	// restarts are the services to restart, with the reason.
	restarts map[string]string
	// ends counts, by service, how often it ended or had to be repaired.
	ends map[string]int64
	// addresses are the Node's last seen addresses, valid if addressesKnown is true. expected is when services were expected to exit
	// because of a change.
	addresses      []string
	addressesKnown bool
	expected       map[string]time.Time
}

// New returns a supervisor that sends wake after each check of the services.
func New(s state.Session, wake state.Signal) *Supervisor {
	v := &Supervisor{Session: s, wake: wake, began: time.Now(), restartRequested: state.NewSignal(), restarts: map[string]string{}, ends: map[string]int64{}, expected: map[string]time.Time{}}
	for _, service := range WithoutOwn(s.Wanted.Services) {
		v.ends[service.Name] = 0
	}
	return v
}

// Restarts returns, by service, how often it ended or had to be repaired since the session began.
func (s *Supervisor) Restarts() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ends)
}

// supervision is the state of one run of the supervisor.
type supervision struct {
	Manager
	supervisor *Supervisor
	histories  map[string]*restartHistory
	// lastCheck is when the last pass read the services. Checks that became due during the pass are relative to it.
	lastCheck time.Time
	// stuck has the reasons why services could not be started in the last pass.
	stuck map[string]startBlocker
}

// Run supervises the services until ctx is done.
func (s *Supervisor) Run(ctx context.Context) {
	v := &supervision{
		Manager: Manager{Host: s.Host, Wanted: WithoutOwn(s.Wanted.Services), Changed: s.RecordChange}, supervisor: s, histories: map[string]*restartHistory{},
	}
	for _, service := range v.Wanted {
		v.histories[service.Name] = &restartHistory{}
	}
	var changes <-chan struct{}
	retry := backoff.New()
	for ctx.Err() == nil {
		if changes == nil {
			changes = s.watch(ctx)
		}
		wait := joinedInterval
		err := v.reconcile(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry, wait = backoff.New(), time.Until(v.due())
			if changes == nil {
				wait = min(wait, watchInterval)
			}
		case !errors.Is(err, errControlledElsewhere):
			s.Log.Error("Supervising services failed", "error", err.Error())
			wait = retry.Next()
		}
		s.wake.Send()
		if !v.await(ctx, changes, wait) {
			changes = nil
		}
	}
}

// AllRun reports whether every declared service runs.
func (s *Supervisor) AllRun(ctx context.Context) (bool, error) {
	found, err := Manager{Host: s.Host, Wanted: s.Wanted.Services}.List(ctx)
	if err != nil {
		return false, err
	}
	for _, service := range s.Wanted.Services {
		if found[service.Name].State != hostapi.Running {
			return false, nil
		}
	}
	return true, nil
}

// watch returns nil when watching is not possible; then the services are polled.
func (s *Supervisor) watch(ctx context.Context) <-chan struct{} {
	changes, err := s.Host.Changes.Watch(ctx, desired.NamesOf(s.Wanted.Services))
	if err != nil {
		s.Log.Warn("Watching services failed; polling", "error", err.Error())
	}
	return changes
}

// errControlledElsewhere means that another process controls the services now: a join, or the next session.
var errControlledElsewhere = errors.New("another process is changing services")

// reconcile checks the services once and repairs them. A failure with one service does not stop the others.
func (v *supervision) reconcile(ctx context.Context) error {
	release, err := state.LockServices(ctx, v.Host.System)
	if state.IsHeld(err) {
		return errControlledElsewhere
	}
	if err != nil {
		return err
	}
	defer release()
	if !v.supervisor.IsCurrent() {
		return errControlledElsewhere
	}
	found, err := v.List(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	v.lastCheck = now
	for name, c := range v.histories {
		c.observe(now, found[name])
		c.dropExpected(v.supervisor.expectedEnd(name))
	}
	v.stopEdited(ctx, now, found)
	v.declareAll(ctx, now)
	p, err := v.begin(ctx)
	if err != nil {
		return err
	}
	v.startAll(ctx, now, p)
	v.store(now, p)
	return nil
}

// withoutBackoff returns the services that are not in back-off.
func (v *supervision) withoutBackoff(now time.Time) []desired.Service {
	return slices.DeleteFunc(slices.Clone(v.Wanted), func(s desired.Service) bool { return v.histories[s.Name].backoffUntil().After(now) })
}

// stopEdited stops the services whose declaration was edited and those for which a restart was requested, dependents first.
func (v *supervision) stopEdited(ctx context.Context, now time.Time, found map[string]hostapi.Service) {
	restart := v.supervisor.restartsRequested()
	for _, s := range slices.Backward(v.withoutBackoff(now)) {
		item := v.Manager
		item.Wanted = []desired.Service{s}
		stopped, err := item.Stop(ctx, found, restart)
		if err != nil {
			v.recordFailure(v.histories[s.Name], now, err)
		} else {
			v.supervisor.restartDone(s.Name)
		}
		if len(stopped) > 0 {
			v.histories[s.Name].end(now)
		}
	}
}

// declareAll declares the services, and WICD's own, which is not stopped and uses the declaration at its next start. A service that could not be
// stopped keeps its edited declaration, which shows that its process is not the wanted one.
func (v *supervision) declareAll(ctx context.Context, now time.Time) {
	for _, s := range v.withoutBackoff(now) {
		if v.histories[s.Name].unfinished {
			continue
		}
		if err := v.Declare(ctx, s); err != nil {
			v.recordFailure(v.histories[s.Name], now, err)
		}
	}
	for _, s := range v.supervisor.Wanted.Services {
		if s.Name != api.WICDService {
			continue
		}
		if changed, err := v.Host.Services.Put(ctx, s); err != nil {
			v.supervisor.Log.Error("Declaring WICD's own service failed", "error", err.Error())
		} else if changed {
			v.Changed("service %s declared", s.Name)
		}
	}
}

// startAll starts the services that are not running. Services that this pass stopped do not count as crashed.
func (v *supervision) startAll(ctx context.Context, now time.Time, p *pass) {
	for name, c := range v.histories {
		c.wasRunning = isActive(p.found[name])
	}
	for _, s := range v.withoutBackoff(now) {
		started, err := p.start(ctx, s)
		if err != nil {
			v.recordFailure(v.histories[s.Name], now, fmt.Errorf("service %s does not start: %w", s.Name, err))
		}
		v.histories[s.Name].wasRunning = v.histories[s.Name].wasRunning || started
	}
}

func (v *supervision) recordFailure(c *restartHistory, now time.Time, err error) {
	v.supervisor.Log.Error("Repairing a service failed", "error", err.Error())
	c.failed(now, err)
}

// store stores the result of the pass for waiters and reports.
func (v *supervision) store(now time.Time, p *pass) {
	h := health{running: true}
	for _, s := range v.Wanted {
		c := v.histories[s.Name]
		o, isStuck := p.stuck[s.Name]
		if previous := v.stuck[s.Name]; isStuck && previous.Error() != o.Error() {
			v.supervisor.Log.Info("Service waits to start", "reason", o.Error())
		}
		c.evaluate(now, v.Host.Disk, s, o)
		if c.problem != nil {
			h.problems = append(h.problems, *c.problem)
		}
		h.stable = nodestate.Later(h.stable, c.stableAt())
		h.running = h.running && p.found[s.Name].State == hostapi.Running
	}
	for _, s := range v.Wanted {
		h.services = append(h.services, h.stateOf(s.Name, p))
	}
	v.stuck = p.stuck
	v.supervisor.mu.Lock()
	defer v.supervisor.mu.Unlock()
	if h.since = now; slices.Equal(h.services, v.supervisor.health.services) {
		h.since = v.supervisor.health.since
	}
	v.supervisor.health = h
	for name, history := range v.histories {
		v.supervisor.ends[name] = history.total
	}
}

// Restart requests a restart of a service. One that does not run is started anyway.
func (s *Supervisor) Restart(name, reason string) {
	s.mu.Lock()
	s.restarts[name] = reason
	s.mu.Unlock()
	s.restartRequested.Send()
}

func (s *Supervisor) restartsRequested() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.restarts)
}

func (s *Supervisor) restartDone(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.restarts, name)
}

// due returns when to check again without a notification.
func (v *supervision) due() time.Time {
	now := v.lastCheck
	due := now.Add(servicesInterval)
	v.supervisor.mu.Lock()
	settled := v.supervisor.health.settled()
	v.supervisor.mu.Unlock()
	if settled.After(now) {
		due = settled
	}
	for _, c := range v.histories {
		times := []time.Time{c.backoffUntil(), c.stableAt()}
		if c.unfinished {
			times = append(times, nodestate.Later(c.backoffUntil(), now.Add(unfinishedInterval)))
		}
		if !c.blocked.IsZero() {
			times = append(times, c.blocked.Add(readyTimeout))
		}
		for _, t := range times {
			if t.After(now) && t.Before(due) {
				due = t
			}
		}
	}
	return due
}

// await returns when a service changes, when something that a service waits for appears, or after wait. watching is false when no more changes will
// be sent.
func (v *supervision) await(ctx context.Context, changes <-chan struct{}, wait time.Duration) (watching bool) {
	_ = backoff.Sleep(ctx, gatherFor)
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-end.C:
			return true
		case _, watching := <-changes:
			return watching
		case <-v.supervisor.restartRequested:
			return true
		case <-time.After(v.checkInterval()):
			if v.isAwaitedReady(ctx) {
				return true
			}
		}
	}
}

// checkInterval returns when to check what services wait for.
func (v *supervision) checkInterval() time.Duration {
	if len(v.stuck) == 0 {
		return servicesInterval
	}
	return stuckInterval
}

// isAwaitedReady reports whether something that a service waits for has appeared.
func (v *supervision) isAwaitedReady(ctx context.Context) bool {
	for _, o := range v.stuck {
		if o.file != "" && v.Host.Disk.Exists(o.file) {
			return true
		}
		if o.dependency.Ready != "" && v.Probe(ctx, o.dependency.Ready) == nil {
			return true
		}
	}
	return false
}

// WithoutOwn returns the services without WICD's own, which cannot stop itself.
func WithoutOwn(services []desired.Service) []desired.Service {
	return slices.DeleteFunc(slices.Clone(services), func(s desired.Service) bool { return s.Name == api.WICDService })
}
