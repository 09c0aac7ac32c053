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
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// How often the services are looked at without being told, how soon again while a join has them, and how often it is
// looked whether what a service waits for has come.
const (
	servicesEvery = 5 * time.Minute
	joinedEvery   = time.Second
	awaitedEvery  = 250 * time.Millisecond
	// unfinishedEvery is how soon what failed is tried again, and watching.
	unfinishedEvery = time.Second
	watchEvery      = 10 * time.Second
	// gatherFor is how long changes are gathered before the services are looked at again.
	gatherFor = 100 * time.Millisecond
)

// Supervisor keeps the services running and as declared: whenever one changed, and now and then.
type Supervisor struct {
	state.Session
	// wake is sent when services were looked at.
	wake  state.Signal
	began time.Time
	// restartAsked is sent when services are to be restarted, or one was expected to end.
	restartAsked state.Signal

	mu     sync.Mutex
	health health
	// restarts are services that are to be restarted, with the reason.
	restarts map[string]string
	// ends counts, by service, how often it ended, or had to be repaired.
	ends map[string]int64
	// addresses are those of the Node when it was seen last, if follows is true. expected is when services end because of it.
	addresses []string
	follows   bool
	expected  map[string]time.Time
}

// New makes a supervisor, which sends wake whenever it has looked at the services.
func New(s state.Session, wake state.Signal) *Supervisor {
	v := &Supervisor{Session: s, wake: wake, began: time.Now(), restartAsked: state.NewSignal(), restarts: map[string]string{}, ends: map[string]int64{}, expected: map[string]time.Time{}}
	for _, service := range WithoutOwn(s.Wanted.Services) {
		v.ends[service.Name] = 0
	}
	return v
}

// Restarts counts, by service, how often it ended, or had to be repaired, since the session began.
func (s *Supervisor) Restarts() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ends)
}

// supervision is what one run of the supervisor knows of the services.
type supervision struct {
	Manager
	supervisor *Supervisor
	histories  map[string]*restartHistory
	// looked is when the last pass saw the services. What was to come then may be over when the pass ends.
	looked time.Time
	// stuck are why services could not be started in the last pass.
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
		wait := joinedEvery
		err := v.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry, wait = backoff.New(), time.Until(v.due())
			if changes == nil {
				wait = min(wait, watchEvery)
			}
		case !errors.Is(err, errElsewhere):
			s.Log.Error("Supervising services failed", "error", err.Error())
			wait = retry.Next()
		}
		s.wake.Send()
		if !v.await(ctx, changes, wait) {
			changes = nil
		}
	}
}

// AllRun tells whether every declared service runs.
func (s *Supervisor) AllRun(ctx context.Context) (bool, error) {
	found, err := Manager{Host: s.Host, Wanted: s.Wanted.Services}.List(ctx)
	if err != nil {
		return false, err
	}
	for _, service := range s.Wanted.Services {
		if found[service.Name].State != host.Running {
			return false, nil
		}
	}
	return true, nil
}

// watch returns nil when watching is not possible; then time alone makes us look.
func (s *Supervisor) watch(ctx context.Context) <-chan struct{} {
	changes, err := s.Host.Changes.Watch(ctx, desired.NamesOf(s.Wanted.Services))
	if err != nil {
		s.Log.Warn("Watching services failed; polling", "error", err.Error())
	}
	return changes
}

// errElsewhere means that somebody else has the services now: a join, or a session that is to come.
var errElsewhere = errors.New("the services are in other hands")

// look looks at the services once and restores what it finds. A service that cannot be restored keeps no other from it.
func (v *supervision) look(ctx context.Context) error {
	release, err := state.LockServices(ctx, v.Host.System)
	if state.IsHeld(err) {
		return errElsewhere
	}
	if err != nil {
		return err
	}
	defer release()
	if !v.supervisor.IsCurrent() {
		return errElsewhere
	}
	found, err := v.List(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	v.looked = now
	for name, c := range v.histories {
		c.observe(now, found[name])
		c.excuse(v.supervisor.expectedEnd(name))
	}
	v.stopEdited(ctx, now, found)
	v.declareAll(ctx, now)
	p, err := v.begin(ctx)
	if err != nil {
		return err
	}
	v.startAll(ctx, now, p)
	v.note(now, p)
	return nil
}

// rested are the services that are not left alone now.
func (v *supervision) rested(now time.Time) []desired.Service {
	return slices.DeleteFunc(slices.Clone(v.Wanted), func(s desired.Service) bool { return v.histories[s.Name].backoffUntil().After(now) })
}

// stopEdited stops the services whose declaration was edited, and those that somebody of ours wants to start again, those that
// depend on others first.
func (v *supervision) stopEdited(ctx context.Context, now time.Time, found map[string]host.Service) {
	restart := v.supervisor.restartsAsked()
	for _, s := range slices.Backward(v.rested(now)) {
		one := v.Manager
		one.Wanted = []desired.Service{s}
		stopped, err := one.Stop(ctx, found, restart)
		if err != nil {
			v.fails(v.histories[s.Name], now, err)
		} else {
			v.supervisor.restartDone(s.Name)
		}
		if len(stopped) > 0 {
			v.histories[s.Name].restored(now)
		}
	}
}

// declareAll declares the services, and our own: that is not stopped by it, and runs so when it starts the next time. One
// that could not be stopped keeps the edited declaration, which shows that its process is not the one that is wanted.
func (v *supervision) declareAll(ctx context.Context, now time.Time) {
	for _, s := range v.rested(now) {
		if v.histories[s.Name].unfinished {
			continue
		}
		if err := v.Declare(ctx, s); err != nil {
			v.fails(v.histories[s.Name], now, err)
		}
	}
	for _, s := range v.supervisor.Wanted.Services {
		if s.Name != api.WICDService {
			continue
		}
		if changed, err := v.Host.Services.Put(ctx, s); err != nil {
			v.supervisor.Log.Error("Declaring our own service failed", "error", err.Error())
		} else if changed {
			v.Changed("service %s declared", s.Name)
		}
	}
}

// startAll starts what does not run. What we stopped before is no death.
func (v *supervision) startAll(ctx context.Context, now time.Time, p *pass) {
	for name, c := range v.histories {
		c.runs = isActive(p.found[name])
	}
	for _, s := range v.rested(now) {
		started, err := p.start(ctx, s)
		if err != nil {
			v.fails(v.histories[s.Name], now, fmt.Errorf("service %s does not start: %w", s.Name, err))
		}
		v.histories[s.Name].runs = v.histories[s.Name].runs || started
	}
}

func (v *supervision) fails(c *restartHistory, now time.Time, err error) {
	v.supervisor.Log.Error("Repairing a service failed", "error", err.Error())
	c.failed(now, err)
}

// note keeps what the pass has shown, for those who wait and for those who report.
func (v *supervision) note(now time.Time, p *pass) {
	h := health{running: true}
	for _, s := range v.Wanted {
		c := v.histories[s.Name]
		o, isStuck := p.stuck[s.Name]
		if was := v.stuck[s.Name]; isStuck && was.Error() != o.Error() {
			v.supervisor.Log.Info("Service waits to start", "reason", o.Error())
		}
		c.judge(now, v.Host.Disk, s, o)
		if c.problem != nil {
			h.problems = append(h.problems, *c.problem)
		}
		h.stable = later(h.stable, c.stableAt())
		h.running = h.running && p.found[s.Name].State == host.Running
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

// Restart has a service restarted. One that does not run is started anyway.
func (s *Supervisor) Restart(name, why string) {
	s.mu.Lock()
	s.restarts[name] = why
	s.mu.Unlock()
	s.restartAsked.Send()
}

func (s *Supervisor) restartsAsked() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.restarts)
}

func (s *Supervisor) restartDone(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.restarts, name)
}

// due is when to look again although nobody told of a change.
func (v *supervision) due() time.Time {
	now := v.looked
	due := now.Add(servicesEvery)
	v.supervisor.mu.Lock()
	settled := v.supervisor.health.settled()
	v.supervisor.mu.Unlock()
	if settled.After(now) {
		due = settled
	}
	for _, c := range v.histories {
		times := []time.Time{c.backoffUntil(), c.stableAt()}
		if c.unfinished {
			times = append(times, later(c.backoffUntil(), now.Add(unfinishedEvery)))
		}
		if !c.blocked.IsZero() {
			times = append(times, c.blocked.Add(readyPatience))
		}
		for _, t := range times {
			if t.After(now) && t.Before(due) {
				due = t
			}
		}
	}
	return due
}

// await returns when a service changed, when something came that a service waits for, or after a while. watching is false
// when no more changes will be told.
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
		case <-v.supervisor.restartAsked:
			return true
		case <-time.After(v.awaitedIn()):
			if v.cameTrue(ctx) {
				return true
			}
		}
	}
}

// awaitedIn is when to look at what services wait for.
func (v *supervision) awaitedIn() time.Duration {
	if len(v.stuck) == 0 {
		return servicesEvery
	}
	return awaitedEvery
}

// cameTrue tells whether something came that a service waits for.
func (v *supervision) cameTrue(ctx context.Context) bool {
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

// WithoutOwn is the list without WICD's own service, which cannot stop itself.
func WithoutOwn(services []desired.Service) []desired.Service {
	return slices.DeleteFunc(slices.Clone(services), func(s desired.Service) bool { return s.Name == api.WICDService })
}
