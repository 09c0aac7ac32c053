package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// declaration is a declared service.
type declaration struct {
	desired.Service
	// ready is the address of its program for probes, which is not part of Windows.
	ready string
	// disabled is true if the service must not start, deleted if it is removed once it has stopped, silent if its program does
	// not answer probes.
	disabled, deleted, silent bool
}

// process is a service's program while it runs.
type process struct {
	pid   uint32
	since time.Time
	end   context.CancelFunc
	done  chan struct{}
	// stopping is set when the service manager has sent a stop, crashed when the process was killed.
	stopping, crashed bool
	// config is the content of the file after --config when the process started.
	config string
}

// describe returns the state of a declared service. The caller holds the lock.
func (b *boot) describe(s desired.Service) hostapi.Service {
	d := hostapi.Service{Service: s, State: hostapi.Stopped, ExitCode: b.exits[s.Name]}
	if p := b.running[s.Name]; p != nil {
		d.State, d.PID = hostapi.Running, p.pid
		if p.stopping {
			d.State = hostapi.Stopping
		}
	}
	return d
}

// List implements hostapi.Services.
func (b *boot) List(_ context.Context, names []string) ([]hostapi.Service, error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if b.off {
		return nil, ErrPower
	}
	var list []hostapi.Service
	for name, d := range b.w.declared {
		if slices.Contains(names, name) || len(names) == 0 && strings.HasPrefix(d.Description, api.ServiceDescription) {
			list = append(list, b.describe(d.Service))
		}
	}
	for _, name := range b.servicesOfFeatures() {
		if slices.Contains(names, name) && b.w.declared[name] == nil {
			list = append(list, hostapi.Service{Service: desired.Service{Name: name}, State: hostapi.Running})
		}
	}
	if b.w.options.Quirks.Setup.Docker && slices.Contains(names, dockerService) {
		docker := desired.Service{Name: dockerService, Description: "Docker Engine", Command: `"C:\Program Files\Docker\dockerd.exe" --run-service`}
		list = append(list, hostapi.Service{Service: docker, State: hostapi.Running})
	}
	slices.SortFunc(list, func(x, y hostapi.Service) int { return strings.Compare(x.Name, y.Name) })
	return list, nil
}

// dockerService is the service of Docker Engine.
const dockerService = "docker"

// Put implements hostapi.Services.
func (b *boot) Put(_ context.Context, s desired.Service) (changed bool, err error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if b.off {
		return false, ErrPower
	}
	if err := hostapi.CheckVariables(s.Environment); err != nil {
		return false, fmt.Errorf("declaring service %s: %w", s.Name, err)
	}
	old := b.w.declared[s.Name]
	if old != nil && old.deleted {
		return false, fmt.Errorf("declaring service %s: %w", s.Name, hostapi.ErrDeleted)
	}
	if old != nil && !old.disabled && reflect.DeepEqual(old.Service, kept(s)) {
		old.ready = s.Ready
		return false, nil
	}
	if err := b.changeLocked("put " + s.Name); err != nil {
		return false, err
	}
	b.w.declared[s.Name] = &declaration{Service: kept(s), ready: s.Ready, silent: old != nil && old.silent}
	b.watches.notify(s.Name)
	return true, nil
}

// kept is the part of a declaration that Windows stores. It does not distinguish empty from missing.
func kept(s desired.Service) desired.Service {
	k := desired.Service{Name: s.Name, Description: s.Description, Command: s.Command}
	k.DependsOn = append(k.DependsOn, s.DependsOn...)
	if len(s.Environment) > 0 {
		k.Environment = maps.Clone(s.Environment)
	}
	return k
}

// Start implements hostapi.Services.
func (b *boot) Start(ctx context.Context, name string) error {
	if delay := b.w.options.Quirks.Setup.SlowServices.StartTakes; delay > 0 {
		if err := backoff.Sleep(ctx, delay); err != nil {
			return fmt.Errorf("starting service %s: %w", name, err)
		}
	}
	return b.start(name)
}

func (b *boot) start(name string) error {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return b.startLocked(name)
}

func (b *boot) startLocked(name string) error {
	s, found := b.w.declared[name]
	switch {
	case b.off:
		return ErrPower
	case !found:
		return fmt.Errorf("service %s: %w", name, hostapi.ErrNotFound)
	case s.disabled, s.deleted && b.running[name] == nil:
		return fmt.Errorf("service %s is disabled or deleted", name)
	case b.running[name] != nil && b.running[name].stopping:
		return fmt.Errorf("service %s is stopping", name)
	case b.running[name] != nil:
		return nil
	}
	for _, dependency := range s.DependsOn {
		if err := b.startLocked(dependency); err != nil {
			// A missing dependency is a failure of this service, which exists.
			return fmt.Errorf("starting %s, which %s depends on: %s", dependency, name, err.Error())
		}
	}
	if err := b.changeLocked("start " + name); err != nil {
		return err
	}
	if err := b.canRun(executableOf(s.Command)); err != nil {
		return fmt.Errorf("service %s: %w", name, err)
	}
	b.launch(s.Service)
	return nil
}

// canRun rejects missing and damaged programs.
func (b *boot) canRun(program string) error {
	if _, err := os.Stat(b.w.Disk().Local(program)); err != nil {
		return fmt.Errorf("Windows does not find %s", program)
	}
	if damaged := b.w.options.Damaged; damaged != "" && strings.Contains(program, damaged) {
		return fmt.Errorf("%s is no program that Windows can run", program)
	}
	return nil
}

// Delete implements hostapi.Services.
func (b *boot) Delete(ctx context.Context, name string) error {
	if err := b.stop(ctx, name); err != nil {
		return err
	}
	return b.remove(name)
}

func (b *boot) remove(name string) error {
	b.w.mu.Lock()
	found := b.w.declared[name] != nil
	b.w.mu.Unlock()
	if !found {
		return nil
	}
	if err := b.change("delete " + name); err != nil {
		return err
	}
	b.w.DeleteService(name)
	return nil
}

// member is the service manager for the process of a service, which does not stop itself.
type member struct {
	*boot
	name string
}

// Delete implements hostapi.Services.
func (m member) Delete(ctx context.Context, name string) error {
	if name == m.name {
		return m.remove(name)
	}
	return m.boot.Delete(ctx, name)
}

// executableOf is the first word of a command line, which may be in quotes.
func executableOf(command string) string {
	if rest, quoted := strings.CutPrefix(command, `"`); quoted {
		name, _, _ := strings.Cut(rest, `"`)
		return name
	}
	name, _, _ := strings.Cut(command, " ")
	return name
}

// launch runs the service's program. The caller holds the lock.
func (b *boot) launch(s desired.Service) {
	ctx, end := context.WithCancel(b.ctx)
	b.lastPID += 4
	p := &process{pid: b.lastPID, since: time.Now(), end: end, done: make(chan struct{})}
	if _, rest, configured := strings.Cut(s.Command, " --config "); configured {
		file, _, _ := strings.Cut(rest, " ")
		content, _ := b.w.Disk().Read(file) // if it is missing, a program uses its defaults
		p.config = string(content)
	}
	b.running[s.Name] = p
	b.watches.notify(s.Name)
	program := b.w.options.Programs[s.Name]
	if program == nil {
		program = func(ctx context.Context, _ Process) uint32 {
			<-ctx.Done()
			return aborted
		}
	}
	host := b.host()
	host.Services = member{b, s.Name}
	b.processes.Go(func() {
		code := program(ctx, Process{
			Command: s.Command, Environment: merged(b.environment, s.Environment), Host: host, BootID: b.id,
		})
		end()
		b.ended(s.Name, p, code)
	})
}

// aborted is the exit code of a process that terminated unexpectedly, ERROR_PROCESS_ABORTED.
const aborted = 1067

// ended records the exit of a process. After a crash or an error, the service is restarted some time later.
func (b *boot) ended(name string, p *process, code uint32) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	delete(b.running, name)
	switch {
	case p.stopping:
		code = 0
	case p.crashed && code == 0:
		code = aborted
	}
	b.exits[name] = code
	if d := b.w.declared[name]; d != nil && d.deleted {
		delete(b.w.declared, name)
	}
	b.watches.notify(name)
	close(p.done)
	if code != 0 && !b.off {
		time.AfterFunc(b.w.options.RestartDelay, func() { _ = b.start(name) })
	}
}

// Stop implements hostapi.Services.
func (b *boot) Stop(ctx context.Context, name string) error { return b.stop(ctx, name) }

func (b *boot) stop(ctx context.Context, name string) error {
	b.w.mu.Lock()
	p := b.running[name]
	if p == nil || b.off {
		off := b.off
		b.w.mu.Unlock()
		if off {
			return ErrPower
		}
		return nil
	}
	var dependants []string
	for _, s := range b.w.declared {
		if slices.Contains(s.DependsOn, name) {
			dependants = append(dependants, s.Name)
		}
	}
	b.w.mu.Unlock()
	for _, d := range dependants {
		if err := b.stop(ctx, d); err != nil {
			return err
		}
	}
	if err := b.change("stop " + name); err != nil {
		return err
	}
	b.w.mu.Lock()
	p.stopping = true
	b.watches.notify(name)
	b.w.mu.Unlock()
	p.end()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("service %s does not stop", name), ctx.Err())
	}
}

// Watch implements hostapi.Changes.
func (b *boot) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if b.off {
		return nil, ErrPower
	}
	if err := b.faultLocked("watch"); err != nil {
		return nil, err
	}
	return b.watches.add(ctx, &b.w.mu, append([]string{}, names...)), nil
}
