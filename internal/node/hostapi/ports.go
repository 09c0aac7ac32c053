// Package hostapi defines the interfaces by which WICD uses the machine that it runs on: ports for Windows features (services, features,
// rights, certificates, firewall, networks), and Disk for files, which maps C:\ to a folder. internal/node/win implements the ports,
// internal/testing/sim simulates them, and both must pass the contract tests in internal/testing/sim.
package hostapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// System is the Windows that the daemon runs on.
type System interface {
	// Facts returns facts about Windows. It changes nothing. If a fact cannot be read, it still returns the others.
	Facts(ctx context.Context) (wicdapi.HostFacts, error)
	// Feature returns the state of a Windows feature, FeatureUnknown if this Windows does not have it. Windows may take seconds, or minutes while it
	// is busy; the call returns when ctx ends. An error of Windows is a *FeatureError.
	Feature(ctx context.Context, name string) (wicdapi.FeatureState, error)
	// EnableFeature enables a Windows feature with its dependencies. reboot is true if it takes effect only after a restart. Enabling an enabled
	// feature changes nothing. It fails as Feature does.
	EnableFeature(ctx context.Context, name string) (reboot bool, err error)
	// Reboot restarts the host after a delay in which the caller can still respond. A second call is harmless.
	Reboot(ctx context.Context, reason string, after time.Duration) error
	// Lock acquires the lock of that name, such as C:\k\state\command.lock, for this process. It is released by release or when the process ends, even
	// by a crash. Lock does not wait: it returns ErrLocked if another process holds the lock. The file is created if absent, and stays.
	Lock(path string) (release func(), err error)
}

// Rights control who may use files and folders. They do not follow links: they apply to the link itself.
type Rights interface {
	// MakeFolder creates a folder, in an existing one, that belongs to Administrators and has these rights from the start. An existing folder is not
	// changed; created is false then.
	MakeFolder(folder string, access Access) (created bool, err error)
	// Check compares the owner and rights of a file, folder or link. matches is true if it belongs to Administrators and has exactly these
	// rights. foreignOwner is its owner if that is neither Windows itself nor an administrator, as far as the owner alone shows; otherwise
	// it is empty. An absent one is fs.ErrNotExist.
	Check(name string, access Access) (matches bool, foreignOwner string, err error)
	// Protect makes Administrators the owner of a file or folder and gives it exactly these rights. The content of a folder keeps its own rights; new
	// content inherits the folder's. A link is an error, and an absent one is fs.ErrNotExist.
	Protect(name string, access Access) error
}

// Access is who has access in addition to SYSTEM and Administrators, who have full access.
type Access int

const (
	// Private gives no one else access.
	Private Access = iota
	// Readable lets users of the host read and run a folder and its content.
	Readable
	// Volumes lets them read a folder, and gives them the rights in its subfolders that they have in new folders of drive C: to create folders and
	// files of their own. This is how pods that run as ContainerUser, one of the users, write to their volumes.
	Volumes
)

// Services is the service control manager (SCM). A service is identified by its declaration.
type Services interface {
	// List returns the host's services with one of these names, each once, in the spelling of the list. Without names, it returns those whose
	// description marks them as managed, which takes longer.
	List(ctx context.Context, names []string) ([]Service, error)
	// Put makes a service equal to its declaration: it creates the service or changes what differs. The service starts at boot, and the SCM restarts
	// it when its process dies or stops with an error; a service that stops without an error stays stopped. Put starts and stops nothing: a new
	// command line or environment takes effect at the next start. changed is false if nothing differed. Variables that CheckVariables rejects are an
	// error, and nothing changes. A service that is marked for deletion until it stops is ErrDeleted.
	Put(ctx context.Context, s desired.Service) (changed bool, err error)
	// Start starts a service after those it depends on, and waits until it runs. A running service is not changed. An absent one is ErrNotFound.
	// When Windows stays too busy to start it, the error is ErrBusy.
	Start(ctx context.Context, name string) error
	// Stop stops a service after those that depend on it, and waits until its process has ended. A stopped or absent service is not an error.
	Stop(ctx context.Context, name string) error
	// Delete stops a service, as Stop does, and removes it. The calling service itself is removed when it has stopped. An absent service is not an error.
	Delete(ctx context.Context, name string) error
}

// Changes watches the service control manager.
type Changes interface {
	// Watch sends a message when the state of one of the services changed, or its declaration was changed or deleted, until ctx is done; then it
	// closes the channel. Several changes may be merged into one message, and there may be messages without a change. An absent service is not an error.
	Watch(ctx context.Context, names []string) (<-chan struct{}, error)
}

// Service is a service on the host.
type Service struct {
	desired.Service
	// State is the state that the SCM reports.
	State ServiceState
	// PID is the ID of its process; 0 if it does not run.
	PID uint32
	// ExitCode is the exit code of its last process.
	ExitCode uint32
}

// ServiceState is the state of a service, in the SCM's terms.
type ServiceState string

// The states of a service.
const (
	Stopped  ServiceState = "Stopped"
	Starting ServiceState = "StartPending"
	Running  ServiceState = "Running"
	Stopping ServiceState = "StopPending"
	Paused   ServiceState = "Paused"
)

// Environment is the environment of the machine. Services see changes after the next start of Windows, when the SCM reads it. What a service needs
// earlier belongs in its own environment, see desired.Service.
type Environment interface {
	// Set sets these variables literally: %NAME% is not expanded. Variables in managed without a value are removed. Other variables are not
	// changed, and nothing is written if all is as requested. Names are case-insensitive. changed lists the variables that were set or
	// removed, sorted, even with an error. Values may be secret and appear in no error or log. Variables that CheckVariables rejects are an
	// error, and nothing changes.
	Set(ctx context.Context, variables map[string]string, managed []string) (changed []string, err error)
}

// CheckVariables rejects what Windows cannot store as environment variables. The error names the variable but not its value.
func CheckVariables(variables map[string]string) error {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		key := strings.ToLower(name)
		switch other, twice := seen[key]; {
		case twice:
			return fmt.Errorf("variables %q and %q are the same to Windows, which ignores case: keep only one of them", other, name)
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("%q cannot name a variable: a name must not be empty, or contain an equals sign or a NUL byte", name)
		case strings.ContainsRune(variables[name], 0):
			return fmt.Errorf("the value of variable %q contains a NUL byte, at which Windows would cut it off: remove the byte", name)
		}
		seen[key] = name
	}
	return nil
}

// Certificates are the root certificates that were added to this machine's store LocalMachine\Root, without those that Windows includes or a group
// policy adds. Certificates are equal if all their bytes are, regardless of subjects and serial numbers.
type Certificates interface {
	// List returns the SHA-256 of the DER of each certificate in lower-case hexadecimal, sorted.
	List(ctx context.Context) ([]string, error)
	// Add adds a certificate in DER. added is false if it was already present. Anything but exactly one certificate is an error.
	Add(ctx context.Context, der []byte) (added bool, err error)
	// Remove removes the certificate with this SHA-256, as returned by List. An absent one is not an error; then removed is false.
	Remove(ctx context.Context, hash string) (removed bool, err error)
}

// Probes check whether services work. Requests are made on the host itself and bypass any proxy.
type Probes interface {
	// Probe returns nil if a service at an address answers as desired.Service.Ready describes it, otherwise an error with what it received. It ends
	// with ctx.
	Probe(ctx context.Context, address string) error
}

// Runtime is the container runtime with the images of pods. If it does not answer, calls fail.
type Runtime interface {
	// NetworkReady reports whether the runtime has loaded a configuration of the pod network. It is quick.
	NetworkReady(ctx context.Context) (bool, error)
	// ImageStatus returns an image by its full name, with registry and tag or digest, if the runtime has it with all its layers. It is quick.
	ImageStatus(ctx context.Context, name string) (image cri.Image, found bool, err error)
	// Pull pulls an image from its registry or a mirror, and unpacks it, even if it is already present. It ends with ctx. If the runtime cannot pull
	// the image, the error is a *cri.Error; if the runtime does not answer, it is another error, or one with code cri.Unavailable or cri.Canceled. A
	// pull pins the image that the runtime is configured to use for sandboxes.
	Pull(ctx context.Context, name string, l cri.Login) error
}

// Containers are the Windows objects that containerd, its shims and its network plugins create. They outlive the processes that created them.
type Containers interface {
	// List returns the names of existing containers that containerd's shims created, sorted. It fails if the Host Compute Service does not answer,
	// and ends with ctx.
	List(ctx context.Context) ([]string, error)
	// End terminates a container and all its processes, and waits until it is gone. An absent one is not an error.
	End(ctx context.Context, name string) error
	// RemoveNamespace removes the network of a pod: the namespace with this GUID and its endpoints. An absent one is not an error; then removed is false.
	RemoveNamespace(ctx context.Context, id string) (removed bool, err error)
	// RemoveLayer removes the folder of a layer of an image or container. Its files belong to Windows' installer and can be in use by its filters. An
	// absent one is not an error.
	RemoveLayer(ctx context.Context, folder string) error
	// EndPrograms ends the processes whose program is below a folder, except the calling process, and waits until they have ended. It returns the
	// paths of the programs, sorted, even with an error.
	EndPrograms(ctx context.Context, folder string) (ended []string, err error)
}

// NextStart is what happens at the next start of Windows.
type NextStart interface {
	// Waits returns why Windows itself waits for a restart. It is quick.
	Waits(ctx context.Context) (Waits, error)
	// Unfinished returns what Windows has begun but not finished. It is quick.
	Unfinished(ctx context.Context) (Unfinished, error)
	// Boot returns the ID of the current boot of Windows, as in Facts and in the Node status that the kubelet sets. It is quick.
	Boot(ctx context.Context) (id string, err error)
	// Rename gives the host another DNS host name at the next start, and its first 15 characters as NetBIOS name. Until then, Facts returns the
	// current name. A name that Windows does not accept is an error.
	Rename(ctx context.Context, hostname string) error
}

// Host is everything that the daemon needs of the machine: Windows, services, settings, programs, drive and network.
type Host struct {
	System   System
	Rights   Rights
	Services Services
	Changes  Changes
	// Programs runs commands on the host: the full path of a program without spaces, and its arguments. A program is ended with ctx at the latest.
	Programs     wicdapi.Runner
	Probes       Probes
	Runtime      Runtime
	Environment  Environment
	Certificates Certificates
	Containers   Containers
	NextStart    NextStart
	Networks     Networks
	EndpointACLs EndpointACLs
	HNSState     HNSState
	Firewall     Firewall
	Defender     Defender
	Accounts     Accounts
	Routes       Routes
	Adapters     Adapters
	EventLogs    EventLogs
	UpdateAgent  UpdateAgent
	Inventory    Inventory
	Pipes        Pipes
	Disk         Disk
	// Dial connects to the API server, the metadata service of a cloud, and registries. Default: this machine's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolve returns the addresses of a DNS name. Default: this machine's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Listen opens ports on loopback. Default: this machine's network.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
}

// MakePrivate restricts a file or folder to SYSTEM and Administrators, unless it already is.
func (h Host) MakePrivate(name string) error {
	if isPrivate, _, err := h.Rights.Check(name, Private); err != nil || isPrivate {
		return err
	}
	return h.Rights.Protect(name, Private)
}

// ErrNotFound is returned for a service or feature that does not exist.
var ErrNotFound = fs.ErrNotExist

// ErrNoNumber is returned by HNSState.Get for a value that is not a DWORD.
var ErrNoNumber = errors.New("not a DWORD")

// ErrDeleted is returned by Services.Put for a running service that was deleted.
var ErrDeleted = errors.New("marked for deletion, and removed when it has stopped")

// ErrLocked is returned by System.Lock if another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// ErrBusy means that Windows cannot handle any request at the moment. A retry may succeed soon.
var ErrBusy = errors.New("Windows is busy")
