package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// readyTimeout is how long others wait for a service that runs but does not answer yet. containerd takes seconds.
const readyTimeout = time.Minute

// readyInterval is the interval between probes meanwhile, and probeTimeout the timeout of each.
const (
	readyInterval = 500 * time.Millisecond
	probeTimeout  = 5 * time.Second
)

// Manager keeps services running and as declared.
type Manager struct {
	Host hostapi.Host
	// Wanted are the declarations in start order.
	Wanted []desired.Service
	// Changed is called for each change.
	Changed func(format string, args ...any)
}

// List returns the existing services by name.
func (m Manager) List(ctx context.Context) (map[string]hostapi.Service, error) {
	list, err := m.Host.Services.List(ctx, desired.NamesOf(m.Wanted))
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	found := map[string]hostapi.Service{}
	for _, s := range list {
		found[s.Name] = s
	}
	return found, nil
}

// Stop stops the running services that are not as declared, or for which restart has a reason, dependents first, and returns their names. When it
// returns, their processes are gone.
func (m Manager) Stop(ctx context.Context, found map[string]hostapi.Service, restart map[string]string) (stopped []string, err error) {
	for _, s := range slices.Backward(m.Wanted) {
		current, exists := found[s.Name]
		reason := restart[s.Name]
		if !desired.SameDeclaration(current.Service, s) {
			reason = "its declaration changed"
		}
		if !exists || current.State == hostapi.Stopped || reason == "" {
			continue
		}
		if err := m.Host.Services.Stop(ctx, s.Name); err != nil {
			return stopped, fmt.Errorf("stopping service %s: %w", s.Name, err)
		}
		stopped = append(stopped, s.Name)
		m.Changed("service %s stopped: %s", s.Name, reason)
	}
	return stopped, nil
}

// Declare updates a service to its wanted declaration. A service that was marked for deletion is stopped, so that it disappears, and
// created again.
func (m Manager) Declare(ctx context.Context, s desired.Service) error {
	changed, err := m.Host.Services.Put(ctx, s)
	if errors.Is(err, hostapi.ErrDeleted) {
		if err := m.Host.Services.Stop(ctx, s.Name); err != nil {
			return fmt.Errorf("stopping service %s, which was deleted: %w", s.Name, err)
		}
		m.Changed("service %s stopped: it was deleted", s.Name)
		changed, err = m.Host.Services.Put(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("declaring service %s: %w", s.Name, err)
	}
	if changed {
		m.Changed("service %s declared", s.Name)
	}
	return nil
}

// pass is one check of the services, which starts those that do not run.
type pass struct {
	Manager
	found map[string]hostapi.Service
	// stuck has the reasons why services were not started, by name.
	stuck map[string]startBlocker
}

// startBlocker is the reason why a service cannot be started yet.
type startBlocker struct {
	service string
	// file is the missing file, if any.
	file string
	// dependency does not work, for the reason err; notReady is true if it is running nevertheless.
	dependency desired.Service
	notReady   bool
	// busy means that Windows could not start the service now; dependency is the service itself.
	busy bool
	err  error
}

// Error implements error.
func (o startBlocker) Error() string {
	if o.file != "" {
		return fmt.Sprintf("service %s is waiting for file %s", o.service, o.file)
	}
	if o.busy {
		return fmt.Sprintf("service %s does not start: %v", o.service, o.err)
	}
	return fmt.Sprintf("service %s is waiting for service %s: %v", o.service, o.dependency.Name, o.err)
}

func (m Manager) begin(ctx context.Context) (*pass, error) {
	found, err := m.List(ctx)
	return &pass{Manager: m, found: found, stuck: map[string]startBlocker{}}, err
}

// start starts a service that does not run, unless its start is blocked. started is true when it did.
func (p *pass) start(ctx context.Context, s desired.Service) (started bool, err error) {
	current := p.found[s.Name]
	if current.State == hostapi.Running {
		return false, nil
	}
	if o := p.blocker(ctx, s); o != nil {
		p.stuck[s.Name] = *o
		return false, nil
	}
	if err := p.Host.Services.Start(ctx, s.Name); err != nil {
		return false, err
	}
	current.State = hostapi.Running
	p.found[s.Name] = current
	p.Changed("service %s started", s.Name)
	return true, nil
}

// blocker returns what blocks the start of a service, nil when nothing does.
func (p *pass) blocker(ctx context.Context, s desired.Service) *startBlocker {
	for _, file := range s.Needs {
		if !p.Host.Disk.Exists(file) {
			return &startBlocker{service: s.Name, file: file}
		}
	}
	for _, name := range s.DependsOn {
		dependency := p.Wanted[slices.IndexFunc(p.Wanted, func(w desired.Service) bool { return w.Name == name })]
		if o, isStuck := p.stuck[name]; isStuck && o.file != "" {
			return &startBlocker{service: s.Name, file: o.file}
		}
		if p.found[name].State != hostapi.Running {
			return &startBlocker{service: s.Name, dependency: dependency, err: errors.New("it is not running")}
		}
		if err := p.Probe(ctx, dependency.Ready); err != nil {
			return &startBlocker{service: s.Name, dependency: dependency, notReady: true, err: err}
		}
	}
	return nil
}

// Probe checks whether a service works. One without an address works as soon as it runs.
func (m Manager) Probe(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return m.Host.Probes.Probe(ctx, address)
}

// StartAll starts the services that do not run, in order, each once its dependencies work. A service that needs a missing file is left to WICD's
// service, which starts it when the file appears. A start for which Windows is too busy is retried for as long as dependencies are waited for: a
// briefly busy host must not return to the previous version.
func (m Manager) StartAll(ctx context.Context) error {
	started := map[string]bool{}
	for end := time.Now().Add(readyTimeout); ; {
		p, err := m.begin(ctx)
		if err != nil {
			return err
		}
		for _, s := range m.Wanted {
			if current := p.found[s.Name]; started[s.Name] && current.State == hostapi.Stopped {
				return m.failure(s, fmt.Errorf("it started, then exited with code %d", current.ExitCode))
			}
			now, err := p.start(ctx, s)
			if errors.Is(err, hostapi.ErrBusy) && time.Now().Before(end) {
				p.stuck[s.Name] = startBlocker{service: s.Name, dependency: s, busy: true, err: err}
				continue
			}
			if err != nil {
				return m.failure(s, err)
			}
			started[s.Name] = started[s.Name] || now
		}
		o, waits := p.waits()
		if !waits {
			return nil
		}
		if time.Now().After(end) && o.busy {
			return m.failure(o.dependency, o.err)
		}
		if time.Now().After(end) {
			return m.failure(o.dependency, fmt.Errorf("service %s is waiting for it, and it is not ready after %v: %w", o.service, readyTimeout, o.err))
		}
		if err := backoff.Sleep(ctx, readyInterval); err != nil {
			return fmt.Errorf("%w: %w", o, err)
		}
	}
}

// waits returns the first service that is waiting for another one, not for a file.
func (p *pass) waits() (o startBlocker, waits bool) {
	for _, s := range p.Wanted {
		if o, isStuck := p.stuck[s.Name]; isStuck && o.file == "" {
			return o, true
		}
	}
	return startBlocker{}, false
}

func (m Manager) failure(s desired.Service, err error) error {
	return &wicdapi.Error{Code: wicdapi.CodeServiceFailed, Message: fmt.Sprintf(
		"service %s does not start: %v; its log ends with:\n%s", s.Name, err, logrotate.Tail(m.Host.Disk, s.Log.Path, logrotate.TailBytes))}
}

// IsManaged reports whether a service was created by this operator or the original one.
func IsManaged(s hostapi.Service) bool {
	return strings.HasPrefix(s.Description, api.ServiceDescription)
}
