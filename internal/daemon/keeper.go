package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// readyPatience is how long others wait for a service that runs and does not answer yet. containerd takes seconds.
const readyPatience = time.Minute

// readyEvery is how often it is asked meanwhile, probeTimeout how long one answer may take.
const (
	readyEvery   = 500 * time.Millisecond
	probeTimeout = 5 * time.Second
)

// keeper keeps services as they are declared, and running.
type keeper struct {
	host host.Host
	// wanted are the declarations, in the order in which the services start.
	wanted []desired.Service
	// did hears of each change.
	did func(format string, args ...any)
}

func (k keeper) list(ctx context.Context) (map[string]host.Service, error) {
	list, err := k.host.Services.List(ctx, desired.NamesOf(k.wanted))
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	found := map[string]host.Service{}
	for _, s := range list {
		found[s.Name] = s
	}
	return found, nil
}

// stop stops the running services that are not as declared, or that restart names with a reason; those that depend
// on one of them first. stopped are the former. When it returns, their processes are gone.
func (k keeper) stop(ctx context.Context, found map[string]host.Service, restart map[string]string) (stopped []string, err error) {
	for _, s := range slices.Backward(k.wanted) {
		is, there := found[s.Name]
		why := restart[s.Name]
		if !desired.SameDeclaration(is.Service, s) {
			why = "its declaration changed"
		}
		if !there || is.State == host.Stopped || why == "" {
			continue
		}
		if err := k.host.Services.Stop(ctx, s.Name); err != nil {
			return stopped, fmt.Errorf("stopping service %s: %w", s.Name, err)
		}
		stopped = append(stopped, s.Name)
		k.did("service %s stopped: %s", s.Name, why)
	}
	return stopped, nil
}

// declare makes the declaration of a service the one that is wanted. A service that somebody deleted goes when it has
// stopped, and is made again.
func (k keeper) declare(ctx context.Context, s desired.Service) error {
	changed, err := k.host.Services.Put(ctx, s)
	if errors.Is(err, host.ErrDeleted) {
		if err := k.host.Services.Stop(ctx, s.Name); err != nil {
			return fmt.Errorf("stopping service %s, which was deleted: %w", s.Name, err)
		}
		k.did("service %s stopped: it was deleted", s.Name)
		changed, err = k.host.Services.Put(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("declaring service %s: %w", s.Name, err)
	}
	if changed {
		k.did("service %s declared", s.Name)
	}
	return nil
}

// round is one pass over the services that starts what does not run.
type round struct {
	keeper
	found map[string]host.Service
	// stuck are why services were not started, by name.
	stuck map[string]obstacle
}

// obstacle is why a service cannot be started yet.
type obstacle struct {
	service string
	// file is missing; empty when it is not for a file.
	file string
	// dependency does not work, for the reason err; silent is true when it runs all the same.
	dependency desired.Service
	silent     bool
	err        error
}

// Error implements error.
func (o obstacle) Error() string {
	if o.file != "" {
		return fmt.Sprintf("service %s waits for the file %s", o.service, o.file)
	}
	return fmt.Sprintf("service %s waits for service %s: %v", o.service, o.dependency.Name, o.err)
}

func (k keeper) begin(ctx context.Context) (*round, error) {
	found, err := k.list(ctx)
	return &round{keeper: k, found: found, stuck: map[string]obstacle{}}, err
}

// start starts a service that does not run, unless something stands in the way. started is true when it did.
func (r *round) start(ctx context.Context, s desired.Service) (started bool, err error) {
	is := r.found[s.Name]
	if is.State == host.Running {
		return false, nil
	}
	if o := r.obstacle(ctx, s); o != nil {
		r.stuck[s.Name] = *o
		return false, nil
	}
	if err := r.host.Services.Start(ctx, s.Name); err != nil {
		return false, err
	}
	is.State = host.Running
	r.found[s.Name] = is
	r.did("service %s started", s.Name)
	return true, nil
}

// obstacle is what stands in the way of a service, nil when nothing does.
func (r *round) obstacle(ctx context.Context, s desired.Service) *obstacle {
	for _, file := range s.Needs {
		if !r.host.Disk.Exists(file) {
			return &obstacle{service: s.Name, file: file}
		}
	}
	for _, name := range s.DependsOn {
		dependency := r.wanted[slices.IndexFunc(r.wanted, func(w desired.Service) bool { return w.Name == name })]
		if o, isStuck := r.stuck[name]; isStuck && o.file != "" {
			return &obstacle{service: s.Name, file: o.file}
		}
		if r.found[name].State != host.Running {
			return &obstacle{service: s.Name, dependency: dependency, err: errors.New("it does not run")}
		}
		if err := r.probe(ctx, dependency.Ready); err != nil {
			return &obstacle{service: s.Name, dependency: dependency, silent: true, err: err}
		}
	}
	return nil
}

// probe asks a service whether it works. One without an address works as soon as it runs.
func (k keeper) probe(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return k.host.Probes.Probe(ctx, address)
}

// startAll starts what does not run, in order, each when what it depends on works. What needs a file that is not there
// yet is left to the service, which starts it when the file comes.
func (k keeper) startAll(ctx context.Context) error {
	started := map[string]bool{}
	for end := time.Now().Add(readyPatience); ; {
		r, err := k.begin(ctx)
		if err != nil {
			return err
		}
		for _, s := range k.wanted {
			if is := r.found[s.Name]; started[s.Name] && is.State == host.Stopped {
				return k.failure(s, fmt.Errorf("it started, and ended with exit code %d", is.ExitCode))
			}
			now, err := r.start(ctx, s)
			if err != nil {
				return k.failure(s, err)
			}
			started[s.Name] = started[s.Name] || now
		}
		o, waits := r.waits()
		if !waits {
			return nil
		}
		if time.Now().After(end) {
			return k.failure(o.dependency, fmt.Errorf("service %s waits for it, and after %v it still does not work: %w", o.service, readyPatience, o.err))
		}
		if err := backoff.Sleep(ctx, readyEvery); err != nil {
			return fmt.Errorf("%w: %w", o, err)
		}
	}
}

// waits returns the first service that is only to be waited for.
func (r *round) waits() (o obstacle, waits bool) {
	for _, s := range r.wanted {
		if o, isStuck := r.stuck[s.Name]; isStuck && o.file == "" {
			return o, true
		}
	}
	return obstacle{}, false
}

func (k keeper) failure(s desired.Service, err error) error {
	return &agent.Error{Code: agent.CodeServiceFailed, Message: fmt.Sprintf(
		"service %s does not start: %v; its log ends with:\n%s", s.Name, err, logrotate.Tail(k.host.Disk, s.Log.Path, logrotate.TailBytes))}
}
