package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// WindowsOptions are the options of a computer. The zero value with a Root is a small Windows Server 2022.
type WindowsOptions struct {
	// Root is an existing folder; C:\k\x is <Root>/C/k/x. Its content survives restarts and power cuts.
	Root string
	// Hostname is in Windows' spelling. Default: WIN-SIM. Domain is its primary DNS suffix.
	Hostname, Domain string
	// Build and UBR are those of the version. Default: 20348 and 2402.
	Build, UBR int
	// Installation and Architecture are as in wicdapi.HostFacts. Default: Server Core and amd64.
	Installation, Architecture string
	// SystemDrive is the drive that Windows reports as its own. Default: C:.
	SystemDrive string
	// Address is the only address, on the interface with the default route. Default: 192.0.2.10.
	Address string
	// Interfaces are the network interfaces; if nil, one with Address.
	Interfaces []wicdapi.Interface
	// FreeBytes on drive C: is 100 GB by default, and MemoryBytes is 16 GB.
	FreeBytes, MemoryBytes uint64
	// Processors is 4 by default.
	Processors int
	// Skew is how far the clock is ahead.
	Skew time.Duration
	// Features are the initial features; if nil, Containers is enabled, and Hyper-V is not.
	Features map[string]wicdapi.FeatureState
	// Virtualization is what the machine supports for Hyper-V before Hyper-V runs.
	Virtualization wicdapi.Virtualization
	// Programs are the services' programs, by the name of the service. A service without one runs until it is stopped.
	Programs map[string]Program
	// Damaged is a part of the path of programs that do not start.
	Damaged string
	// RestartDelay is how long the service manager waits before it restarts a service that has exited; 5 s if 0.
	RestartDelay time.Duration
	// Startup is how long a service takes until it answers probes, by name; others answer immediately.
	Startup map[string]time.Duration
	// Dial connects programs to the API server and to metadata services; nil means the network of this machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolve returns the addresses of a DNS name; nil uses the resolver of this machine.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// BootTime is how long a restart takes from the end of the last service to the start of the first.
	BootTime time.Duration
	// Quirks are deviations from an idle Windows that has finished its setup and has no security software. By default, they are the passing quirks of
	// Seed, with short durations outside simulated time. If Seed is 0, it is derived from Hostname (SeedOf).
	Quirks Quirks
	Seed   uint64
	// NoQuirks is the reason why this Windows has no random quirks; empty if it has some.
	NoQuirks string
	// NoOperator excludes the random quirk that only the operator overcomes: it starts a WICD that was not started with Windows.
	NoOperator bool
	// drawn is set if Quirks are those of Seed.
	drawn bool
}

// Program is the program of a service. It must return when ctx ends; if it returns earlier, that is a crash with this exit code.
type Program func(ctx context.Context, p Process) (exitCode uint32)

// Process is one run of a service's program.
type Process struct {
	// Command is the command line.
	Command string
	// Environment is the machine's environment at its start, overridden by the service's own variables.
	Environment map[string]string
	// Host is the computer for this process: after a power cut, its calls fail.
	Host hostapi.Host
	// BootID of the computer.
	BootID string
}

// Windows is a simulated computer. It is safe for concurrent use.
type Windows struct {
	loopback loopback
	options  WindowsOptions

	mu          sync.Mutex
	declared    map[string]*declaration
	features    map[string]wicdapi.FeatureState
	environment map[string]string
	trusted     map[string]bool // certificates, by the SHA-256 of their DER
	// containers and programs without a service run until the computer restarts; networks of pods and layers of images stay.
	containers, programs, networks, layers map[string]bool
	rules                                  []Rule // of the firewall
	// missed is set if the runtime has not read its network configuration.
	missed bool
	// images are the existing images, and whether they are pinned; refused are those that no registry has; pulls are those that were requested.
	images  map[string]bool
	refused map[string]*cri.Error
	pulls   []string
	// pullTakes is the duration of a pull.
	pullTakes       time.Duration
	firewallStopped bool
	defender        Defender
	hcs             HCS
	// committed is the memory that programs have committed, in addition to that of Windows itself.
	committed uint64
	accounts  Accounts
	updates   Updates
	local     localUpdates
	// events are the logs of events by channel; nil if they cannot be read.
	events map[string]*eventLog
	// nextName is the host name after the next start; empty if it does not change. waits are the reasons why Windows needs a
	// restart.
	// renames are the strings of PendingFileRenameOperations.
	nextName       string
	waits, renames []string
	servicing      servicing
	created        time.Time
	// held is until when a scanner holds files, by name.
	held     map[string]time.Time
	hns      *HNS
	adapter  *HostAdapter
	failNext map[string]error
	// busy is until when an operation cannot be done.
	busy     map[string]time.Time
	cutAfter int // number of changes until the power is cut; negative: never
	roomFor  int // number of file changes until the disk is full; negative: never full
	changes  int
	boots    int
	boot     *boot // the current one, also after a cut
	// next is closed when the computer starts.
	next chan struct{}
	// hnsNumbers are the settings of the Host Network Service in the registry.
	hnsNumbers map[string]uint32
}

// ErrPower is the error of all calls on a computer without power.
var ErrPower = errors.New("the power is off")

// NewWindows creates a computer and starts it.
func NewWindows(o WindowsOptions) *Windows {
	o.drawQuirks()
	o.Build, o.UBR = cmp.Or(o.Build, 20348), cmp.Or(o.UBR, 2402)
	o.UBR = o.Quirks.Setup.Revision.Of(o.Build, o.UBR)
	o.Installation, o.Architecture = cmp.Or(o.Installation, "Server Core"), cmp.Or(o.Architecture, "amd64")
	o.Address = cmp.Or(o.Address, "192.0.2.10")
	if o.Interfaces == nil {
		o.Interfaces = []wicdapi.Interface{ethernet(o.Address)}
	}
	o.FreeBytes, o.MemoryBytes = cmp.Or(o.FreeBytes, 100<<30), cmp.Or(o.MemoryBytes, 16<<30)
	o.Processors = cmp.Or(o.Processors, 4)
	o.RestartDelay = cmp.Or(o.RestartDelay, 5*time.Second)
	w := &Windows{
		options: o, declared: map[string]*declaration{}, features: maps.Clone(o.Features),
		environment: map[string]string{"SystemRoot": `C:\Windows`}, trusted: map[string]bool{},
		containers: map[string]bool{}, programs: map[string]bool{}, networks: map[string]bool{}, layers: map[string]bool{},
		images: map[string]bool{}, refused: map[string]*cri.Error{},
		hns:      newHNSOf(o),
		events:   newEventLogs(),
		created:  time.Now(),
		failNext: map[string]error{}, held: map[string]time.Time{}, busy: map[string]time.Time{}, cutAfter: -1, roomFor: -1,
		next: make(chan struct{}), hnsNumbers: map[string]uint32{},
		local: localUpdates{all: []*localUpdate{{Offer: Offer{Update: definitions()}}}},
	}
	if w.features == nil {
		w.features = map[string]wicdapi.FeatureState{desired.ContainersFeature: wicdapi.FeatureEnabled, desired.HyperVFeature: wicdapi.FeatureDisabled}
	}
	w.adapter = w.hns.On(o.Quirks.Adapter)
	w.servicing.rollbacks, w.servicing.ownRestarts = o.Quirks.Servicing.RolledBack, o.Quirks.Servicing.RestartsItself
	w.PowerOn()
	return w
}

// ethernet returns an interface with an address and the default route.
func ethernet(address string) wicdapi.Interface {
	i := wicdapi.Interface{
		Name: "Ethernet", Index: 4, GUID: "6c0b2f3e-0000-4000-8000-00000000e7e7", MAC: "00-15-5d-00-00-01", DefaultRoute: true, Metric: 25,
	}
	if ip, err := netip.ParseAddr(address); err == nil {
		i.Addresses = []netip.Prefix{netip.PrefixFrom(ip, 24)}
	}
	return i
}

// Host returns the computer for programs that start now.
func (w *Windows) Host() hostapi.Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.boot.host()
}

// Disk returns drive C: for the simulation, with the power on or off.
func (w *Windows) Disk() hostapi.Disk { return hostapi.Disk{Root: w.options.Root} }

// BootID returns the ID of the current boot.
func (w *Windows) BootID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.boot.id
}

// Update installs a Windows update that needs no restart: the version gets another revision.
func (w *Windows) Update(revision int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.options.UBR = revision
}

// FailNext makes the next operation of a kind fail once: "start kubelet", "stop kubelet", "put kubelet", "watch", "feature
// Containers", "download <ID>" (of an update), "update <ID>" (its installation), "protect C:\k", "reboot", "rename", "end pause"
// (of a container), "network <GUID>" (of a pod), "endpoint VIPEndpoint" (creation), "remove <GUID>" (an object of the Host Network
// Service), "layer C:\x", "variable HTTP_PROXY" (of the machine), "certificate <SHA-256>", or an operation of hostapi.Disk with its
// file: "rename C:\k\kubelet.conf".
func (w *Windows) FailNext(operation string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failNext[operation] = fmt.Errorf("simulated failure of %q", operation)
}

// Busy makes an operation, named as for FailNext, fail with hostapi.ErrBusy for a while.
func (w *Windows) Busy(operation string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[operation] = time.Now().Add(d)
}

// CutPowerAfter cuts the power after a number of changes of files, services, settings or the system.
func (w *Windows) CutPowerAfter(changes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutAfter = changes
}

// ErrDiskFull is the error of writing to a full disk.
var ErrDiskFull = errors.New("there is not enough space on the disk")

// FillDisk makes the disk full after a number of files have grown, until it is called again; a negative number frees space.
// Existing files can be read, renamed and removed.
func (w *Windows) FillDisk(after int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.roomFor = after
}

// Changes returns the number of changes that programs made, or tried to make, since the computer was created.
func (w *Windows) Changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes
}

// PowerCut stops everything immediately. Files stay as they are.
func (w *Windows) PowerCut() {
	w.mu.Lock()
	w.cutLocked()
	w.mu.Unlock()
}

func (w *Windows) cutLocked() {
	w.cutAfter = -1
	if w.boot.off {
		return
	}
	w.boot.off = true
	w.boot.end()
}

// PowerOn starts the computer if it is off: pending features are enabled, services start.
func (w *Windows) PowerOn() {
	w.mu.Lock()
	before := w.boot
	w.mu.Unlock()
	if before != nil {
		if !before.isOff() {
			return
		}
		before.processes.Wait()
	}
	w.mu.Lock()
	w.boots++
	b := newBoot(w, strconv.Itoa(w.boots))
	w.boot = b
	w.takeEffectLocked()
	installed := w.completeUpdatesLocked()
	names := make([]string, 0, len(w.declared))
	for name, d := range w.declared {
		if d.deleted {
			delete(w.declared, name)
		} else if w.options.Quirks.Setup.SlowServices.misses(name) {
			b.exits[name] = missedBoot
		} else if !d.disabled {
			names = append(names, name)
		}
	}
	close(w.next)
	w.next = make(chan struct{})
	w.mu.Unlock()
	for _, takesEffect := range installed {
		takesEffect(w)
	}
	for _, name := range names {
		_ = b.start(name) // other services start anyway
	}
}

// takeEffectLocked applies the changes that take effect at a start. The caller holds the lock.
func (w *Windows) takeEffectLocked() {
	w.startFeaturesLocked()
	w.boot.virtualization = w.options.Virtualization
	if w.options.Virtualization.Processor && w.features[desired.HyperVFeature] == wicdapi.FeatureEnabled {
		w.boot.virtualization = wicdapi.Virtualization{Hypervisor: "Microsoft Hv", HyperV: true} // Hyper-V occupies the processor's extension
	}
	if w.nextName != "" {
		w.options.Hostname, w.nextName = w.nextName, ""
	}
	if name := w.options.Quirks.Setup.Name; name != "" {
		w.options.Hostname = name
	}
	w.waits, w.renames = nil, slices.Clone(w.options.Quirks.Servicing.FileRenames)
	w.hns.reboot()
	w.adapter.returnAddress()
	clear(w.containers)
	clear(w.programs)
}

// awaitBoot returns a boot with power, and waits for one if necessary.
func (w *Windows) awaitBoot(ctx context.Context) (*boot, error) {
	for {
		w.mu.Lock()
		b, off, next := w.boot, w.boot.off, w.next
		w.mu.Unlock()
		if !off {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-next:
		}
	}
}

// Restart stops the services and starts the computer again.
func (w *Windows) Restart() {
	w.mu.Lock()
	b := w.boot
	var names []string
	for name := range b.running {
		names = append(names, name)
	}
	w.mu.Unlock()
	for _, name := range names {
		_ = b.stop(context.Background(), name)
	}
	w.PowerCut()
	<-time.After(w.options.BootTime)
	w.PowerOn()
}

// PowerOff stops the computer for good and waits until all programs have ended.
func (w *Windows) PowerOff() {
	w.PowerCut()
	w.mu.Lock()
	b := w.boot
	w.mu.Unlock()
	b.processes.Wait()
}

// Crash kills the process of a service.
func (w *Windows) Crash(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.boot.running[name]; p != nil {
		p.crashed = true
		p.end()
	}
}

// Service returns a service; its Name is empty if it does not exist.
func (w *Windows) Service(name string) hostapi.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, found := w.declared[name]
	if !found {
		return hostapi.Service{}
	}
	return w.boot.describe(d.Service)
}
