package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
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
	awaitedEvery  = time.Second
	// unfinishedEvery is how soon what failed is tried again, and watching.
	unfinishedEvery = time.Second
	watchEvery      = 10 * time.Second
	// gatherFor is how long changes are gathered before the services are looked at again.
	gatherFor = 100 * time.Millisecond
)

// keeping is how the service keeps the others, through all that happens to them.
type keeping struct {
	keeper
	life    *life
	careers map[string]*career
	// stuck are why services could not be started in the last round.
	stuck map[string]obstacle
}

// keepServices keeps the services running and as declared: whenever one changed, and now and then.
func (l *life) keepServices(ctx context.Context) {
	k := &keeping{keeper: keeper{host: l.host, wanted: withoutOwn(l.wanted.Services), did: l.did}, life: l, careers: map[string]*career{}}
	for _, s := range k.wanted {
		k.careers[s.Name] = &career{}
	}
	var changes <-chan struct{}
	retry := backoff.New()
	for ctx.Err() == nil {
		if changes == nil {
			changes = l.watchServices(ctx)
		}
		wait := joinedEvery
		err := k.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry, wait = backoff.New(), time.Until(k.due(time.Now()))
			if changes == nil {
				wait = min(wait, watchEvery)
			}
		case !errors.Is(err, errElsewhere):
			l.log.Error("Services cannot be kept", "error", err.Error())
			wait = retry.Next()
		}
		l.poke()
		if !k.await(ctx, changes, wait) {
			changes = nil
		}
	}
}

// watchServices returns nil when watching is not possible; then time alone makes us look.
func (l *life) watchServices(ctx context.Context) <-chan struct{} {
	changes, err := l.host.Changes.Watch(ctx, desired.NamesOf(l.wanted.Services))
	if err != nil {
		l.log.Warn("Services cannot be watched", "error", err.Error())
	}
	return changes
}

// errElsewhere means that somebody else has the services now: a join, or a life that is to come.
var errElsewhere = errors.New("the services are in other hands")

// look looks at the services once and mends what it finds. A service that cannot be mended keeps no other from it.
func (k *keeping) look(ctx context.Context) error {
	release, err := state.LockServices(ctx, k.host.System)
	if errors.Is(err, host.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return errElsewhere
	}
	if err != nil {
		return err
	}
	defer release()
	if !k.life.record.IsCurrent(k.host.Disk) {
		return errElsewhere
	}
	found, err := k.list(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for name, c := range k.careers {
		c.saw(now, found[name])
	}
	k.stopEdited(ctx, now, found)
	k.declareAll(ctx, now)
	r, err := k.begin(ctx)
	if err != nil {
		return err
	}
	k.startAll(ctx, now, r)
	k.note(now, r)
	return nil
}

// rested are the services that are not left alone now.
func (k *keeping) rested(now time.Time) []desired.Service {
	return slices.DeleteFunc(slices.Clone(k.wanted), func(s desired.Service) bool { return k.careers[s.Name].rests().After(now) })
}

// stopEdited stops the services whose declaration was edited, and those that somebody of ours wants to start anew, those that
// depend on others first.
func (k *keeping) stopEdited(ctx context.Context, now time.Time, found map[string]host.Service) {
	restart := k.life.restartsAsked()
	for _, s := range slices.Backward(k.rested(now)) {
		one := k.keeper
		one.wanted = []desired.Service{s}
		stopped, err := one.stop(ctx, found, restart)
		if err != nil {
			k.fails(k.careers[s.Name], now, err)
		} else {
			k.life.restartDone(s.Name)
		}
		if len(stopped) > 0 {
			k.careers[s.Name].mended(now)
		}
	}
}

// declareAll declares the services, and our own: that is not stopped by it, and runs so when it starts the next time. One
// that could not be stopped keeps the edited declaration, which shows that its process is not the one that is wanted.
func (k *keeping) declareAll(ctx context.Context, now time.Time) {
	for _, s := range k.rested(now) {
		if k.careers[s.Name].unfinished {
			continue
		}
		if err := k.declare(ctx, s); err != nil {
			k.fails(k.careers[s.Name], now, err)
		}
	}
	for _, s := range k.life.wanted.Services {
		if s.Name != api.WICDService {
			continue
		}
		if changed, err := k.host.Services.Put(ctx, s); err != nil {
			k.life.log.Error("Our own service is not as declared", "error", err.Error())
		} else if changed {
			k.did("service %s declared", s.Name)
		}
	}
}

// startAll starts what does not run. What we stopped before is no death.
func (k *keeping) startAll(ctx context.Context, now time.Time, r *round) {
	for name, c := range k.careers {
		c.runs = isActive(r.found[name])
	}
	for _, s := range k.rested(now) {
		started, err := r.start(ctx, s)
		if err != nil {
			k.fails(k.careers[s.Name], now, fmt.Errorf("service %s does not start: %w", s.Name, err))
		}
		k.careers[s.Name].runs = k.careers[s.Name].runs || started
	}
}

func (k *keeping) fails(c *career, now time.Time, err error) {
	k.life.log.Error("A service is not as it should be", "error", err.Error())
	c.failed(now, err)
}

// note keeps what the round has shown, for those who wait and for those who report.
func (k *keeping) note(now time.Time, r *round) {
	h := health{running: true}
	for _, s := range k.wanted {
		c := k.careers[s.Name]
		o, isStuck := r.stuck[s.Name]
		if was := k.stuck[s.Name]; isStuck && was.Error() != o.Error() {
			k.life.log.Info("Waiting", "reason", o.Error())
		}
		c.judge(now, k.host.Disk, s, o)
		if c.trouble != nil {
			h.troubles = append(h.troubles, *c.trouble)
		}
		h.calm = later(h.calm, c.calm())
		h.running = h.running && r.found[s.Name].State == host.Running
	}
	k.stuck = r.stuck
	k.life.setHealth(h)
}

// restartService has a service restarted. One that does not run is started anyway.
func (l *life) restartService(name, why string) {
	l.mu.Lock()
	l.restarts[name] = why
	l.mu.Unlock()
	select {
	case l.restartAsked <- struct{}{}:
	default: // there is one already
	}
}

func (l *life) restartsAsked() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.restarts)
}

func (l *life) restartDone(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.restarts, name)
}

// due is when to look again although nobody told of a change.
func (k *keeping) due(now time.Time) time.Time {
	due := now.Add(servicesEvery)
	for _, c := range k.careers {
		times := []time.Time{c.rests(), c.calm()}
		if c.unfinished {
			times = append(times, later(c.rests(), now.Add(unfinishedEvery)))
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
func (k *keeping) await(ctx context.Context, changes <-chan struct{}, wait time.Duration) (watching bool) {
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
		case <-k.life.restartAsked:
			return true
		case <-time.After(k.awaitedIn()):
			if k.cameTrue(ctx) {
				return true
			}
		}
	}
}

// awaitedIn is when to look at what services wait for.
func (k *keeping) awaitedIn() time.Duration {
	if len(k.stuck) == 0 {
		return servicesEvery
	}
	return awaitedEvery
}

// cameTrue tells whether something came that a service waits for.
func (k *keeping) cameTrue(ctx context.Context) bool {
	for _, o := range k.stuck {
		if o.file != "" && k.host.Disk.Exists(o.file) {
			return true
		}
		if o.dependency.Ready != "" && k.probe(ctx, o.dependency.Ready) == nil {
			return true
		}
	}
	return false
}
