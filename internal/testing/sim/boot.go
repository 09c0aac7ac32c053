package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// boot is the computer from one start to its end. Programs use it: after a power cut, their calls fail, even if they still run.
type boot struct {
	w  *Windows
	id string
	// began is the time of its start.
	began time.Time
	ctx   context.Context
	end   context.CancelFunc
	// environment is the machine's environment at its start, which services get.
	environment map[string]string

	processes sync.WaitGroup
	// The rest is protected by w.mu.
	off     bool
	running map[string]*process
	// exits are the exit codes of services.
	exits   map[string]uint32
	lastPID uint32
	locks   map[string]bool
	watches watches // of services
	reboot  bool
	// installing is true during an installation of the Windows Update Agent.
	installing bool
	// virtualization follows from the features that are enabled at its start.
	virtualization wicdapi.Virtualization
	// routes are the added routes.
	routes       []hostapi.Route
	routeWatches watches
}

// newBoot starts the computer. The caller holds the lock.
func newBoot(w *Windows, id string) *boot {
	ctx, end := context.WithCancel(context.Background())
	return &boot{
		w: w, id: id, began: time.Now(), ctx: ctx, end: end, environment: maps.Clone(w.environment), lastPID: 1000,
		running: map[string]*process{}, exits: map[string]uint32{}, locks: map[string]bool{}, watches: watches{}, routeWatches: watches{},
	}
}

func (b *boot) host() hostapi.Host {
	return hostapi.Host{
		System: b, Rights: rights{b}, Services: b, Changes: b, Programs: b, Probes: b, Runtime: images{b}, Environment: environment{b}, Certificates: certificates{b},
		Containers: containers{b}, NextStart: nextStart{b}, Firewall: firewall{b}, Defender: defender{b}, Accounts: accounts{b}, Routes: routes{b}, Adapters: adapters{b}, Networks: networks{b}, HNSState: hnsState{b},
		EventLogs: eventLogs{b}, Inventory: inventory{b}, EndpointACLs: networks{b}, Pipes: pipes{b}, UpdateAgent: updateAgent{b},
		Dial: b.w.options.Dial, Resolve: b.w.options.Resolve, Listen: b.w.loopback.listen,
		Disk: hostapi.Disk{Root: b.w.options.Root, Before: b.changeFile, BeforeRead: b.readFile},
	}
}

// lock locks the computer for a call of one of its programs. If it returns an error, because the power is off or ctx has ended, the lock is not held.
func (b *boot) lock(ctx context.Context) error {
	b.w.mu.Lock()
	err := ctx.Err()
	if b.off {
		err = ErrPower
	}
	if err != nil {
		b.w.mu.Unlock()
	}
	return err
}

func (b *boot) isOff() bool {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return b.off
}

// changeFile is called before each change of a file.
func (b *boot) changeFile(op, name string) error {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if slices.Contains([]string{"append", "create", "link", "mkdir", "write"}, op) {
		if b.w.roomFor == 0 {
			return fmt.Errorf("%s %s: %w", op, name, ErrDiskFull)
		}
		b.w.roomFor--
	}
	if hostapi.Parent(name) == b.w.cniFolder() && (op == "remove" || op == "rename") {
		b.w.missed = false
	}
	if err := b.heldLocked(op, name); err != nil {
		return err
	}
	if op == "remove" {
		if err := b.inUseLocked(name); err != nil {
			return err
		}
	}
	return b.changeLocked(op + " " + name)
}

// readFile is called before a file is opened for reading.
func (b *boot) readFile(name string) error {
	q := b.w.options.Quirks.Files
	if !slices.Contains(hostapi.UnreadableCodes(), q.HeldCode) || !b.w.Disk().Exists(name) {
		return nil
	}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return b.heldLocked("open", name)
}

// change is called before each change, and decides whether it is permitted.
func (b *boot) change(operation string) error {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return b.changeLocked(operation)
}

func (b *boot) changeLocked(operation string) error {
	w := b.w
	if b.off {
		return ErrPower
	}
	w.changes++
	if w.cutAfter == 0 {
		w.cutLocked()
		return ErrPower
	}
	w.cutAfter--
	return b.faultLocked(operation)
}

func (b *boot) faultLocked(operation string) error {
	if time.Now().Before(b.w.busy[operation]) {
		return fmt.Errorf("simulated: %s: %w", operation, hostapi.ErrBusy)
	}
	err := b.w.failNext[operation]
	delete(b.w.failNext, operation)
	return err
}

// Facts implements hostapi.System.
func (b *boot) Facts(context.Context) (wicdapi.HostFacts, error) {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.off {
		return wicdapi.HostFacts{}, ErrPower
	}
	o := w.options
	f := wicdapi.HostFacts{
		Hostname: o.Hostname, Domain: o.Domain, Build: o.Build, UBR: o.UBR, Product: "Simulated Windows Server",
		Installation: o.Installation, Architecture: o.Architecture, BootID: b.id, Clock: w.clockLocked(),
		Interfaces: o.Quirks.Adapter.Interfaces(o.Interfaces, w.hns.hasOverlay()), SystemDrive: cmp.Or(o.SystemDrive, "C:"),
		FreeBytes: o.FreeBytes, DiskBytes: max(o.FreeBytes, 100<<30), MemoryBytes: o.MemoryBytes, Processors: o.Processors, NUMANodes: 1,
		PendingReboot: b.waitsLocked().All(), Virtualization: b.virtualization, Listeners: o.Quirks.Adapter.Listeners,
		RuntimePipe: o.Quirks.Setup.DockerHasPipe || b.running[desired.ContainerdService] != nil,
	}
	b.hideLocked(&f)
	return f, nil
}

// clockLocked returns the time of the computer's clock.
func (w *Windows) clockLocked() time.Time {
	now, off := time.Now(), w.options.Skew
	if q := w.options.Quirks.Setup; now.Sub(w.created) < q.ClockOffFor {
		off += q.ClockOff
	}
	return now.Add(off).UTC()
}

// hideLocked removes the facts that Windows does not report.
func (b *boot) hideLocked(f *wicdapi.HostFacts) {
	for _, name := range b.w.options.Quirks.Servicing.Unread {
		switch name {
		case wicdapi.FactBootID:
			f.BootID = ""
		case wicdapi.FactHostname:
			f.Hostname = ""
		case wicdapi.FactDomain:
			f.Domain = ""
		case wicdapi.FactInterfaces:
			f.Interfaces = nil
		case wicdapi.FactFreeBytes:
			f.FreeBytes, f.DiskBytes = 0, 0
		case wicdapi.FactMemory:
			f.MemoryBytes = 0
		case wicdapi.FactListeners:
			f.Listeners = nil
		case wicdapi.FactRuntimePipe:
			f.RuntimePipe = false
		}
		if f.Unread == nil {
			f.Unread = map[string]string{}
		}
		f.Unread[name] = "simulated failure"
	}
}

// Reboot implements hostapi.System.
func (b *boot) Reboot(_ context.Context, _ string, after time.Duration) error {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if err := b.changeLocked("reboot"); err != nil {
		return err
	}
	if !b.reboot {
		b.reboot = true
		b.w.servicing.restarts++
		if u := b.unfinishedLocked(); len(u.Setup)+len(u.Servicing) > 0 {
			b.w.servicing.disturbed++
		}
		time.AfterFunc(after, func() {
			if !b.isOff() {
				b.w.Restart()
			}
		})
	}
	return nil
}

// Lock implements hostapi.System.
func (b *boot) Lock(name string) (release func(), err error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if b.off {
		return nil, ErrPower
	}
	if b.locks[name] {
		return nil, hostapi.ErrLocked
	}
	f, err := os.OpenFile(b.w.Disk().Local(name), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	b.locks[name] = true
	return func() {
		b.w.mu.Lock()
		defer b.w.mu.Unlock()
		delete(b.locks, name)
	}, f.Close()
}
