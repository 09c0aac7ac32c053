// Package host is what WICD needs of the machine it runs on: ports for Windows' own things (services, features, rights,
// certificates, firewall, networks) and Disk for files, which maps C:\ to a folder. internal/win implements the ports,
// internal/sim simulates them, and the contract tests in internal/sim hold for both.
package host

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

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/cri"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// System is the Windows the daemon runs on. internal/win is the real one, internal/sim a simulated one; the
// contract tests in internal/sim hold for both.
type System interface {
	// Facts says what Windows says about itself. It changes nothing, and a fact that cannot be read does not keep the others back.
	Facts(ctx context.Context) (agent.HostFacts, error)
	// Feature is the state of a Windows feature; FeatureUnknown where this Windows does not have it. Windows may take seconds, and minutes
	// while it is busy; the end of ctx ends that. What Windows answers instead is a *FeatureError.
	Feature(ctx context.Context, name string) (agent.FeatureState, error)
	// EnableFeature enables a Windows feature with all it needs. reboot is true when it takes effect only after
	// a restart. An enabled feature stays as it is. It fails as Feature does.
	EnableFeature(ctx context.Context, name string) (reboot bool, err error)
	// Reboot restarts the host after a delay, in which the caller can still answer. A second call is harmless.
	Reboot(ctx context.Context, reason string, after time.Duration) error
	// Lock takes the lock of that name, C:\k\state\join.lock, for this process: it ends with release or with the
	// process, however that ends. It does not wait: a lock that somebody else holds is ErrLocked. The file is
	// created when absent and stays.
	Lock(path string) (release func(), err error)
}

// Rights say who may use files and folders. They do not follow links: what is meant is the link.
type Rights interface {
	// MakeFolder makes a folder, in one that exists, which belongs to Administrators and has these rights from its first moment. One
	// that exists stays as it is; then made is false.
	MakeFolder(folder string, who Access) (made bool, err error)
	// Look tells whose a file, folder or link is. ours is true when it belongs to Administrators and has exactly these rights. stranger
	// names its owner where that is neither an administrator, as far as can be told from the owner alone, nor Windows itself; else it
	// is empty. What does not exist is fs.ErrNotExist.
	Look(name string, who Access) (ours bool, stranger string, err error)
	// Protect makes a file or folder belong to Administrators and gives it exactly these rights. What is in a folder keeps its own; what
	// is made in it from now on inherits the folder's. A link is an error, what does not exist is fs.ErrNotExist.
	Protect(name string, who Access) error
}

// Access says who may do what besides SYSTEM and Administrators, who may do everything.
type Access int

const (
	// Private is for nobody else.
	Private Access = iota
	// Readable lets users of the host read, and run, a folder and what is in it.
	Readable
	// Volumes lets them read a folder, and do in folders below it what they may in new folders of drive C:, which is to make folders
	// and files of their own. Pods that run as ContainerUser, who is one of the users, write to their volumes so.
	Volumes
)

// Services is the service control manager. It speaks of all services by their declaration.
type Services interface {
	// List returns the services on the host that have one of the names, each once, in the spelling of the list. Without names, it returns
	// those whose description marks them as ours, which takes longer.
	List(ctx context.Context, names []string) ([]Service, error)
	// Put makes a service equal to its declaration: creates it, or changes what differs. It starts at boot, and
	// the SCM restarts it whenever its process dies or it stops by itself with an error; one that stops by itself
	// without an error stays stopped. Put starts and stops nothing: a new command line or environment is that of
	// the next start. changed is false when all was as declared. Variables that CheckVariables refuses are an
	// error, and nothing changes. A service that is about to be deleted and goes when it has stopped is ErrDeleted.
	Put(ctx context.Context, s desired.Service) (changed bool, err error)
	// Start starts a service, those it depends on first, and waits until it runs. A running service stays as it
	// is. A service that does not exist is ErrNotFound.
	Start(ctx context.Context, name string) error
	// Stop stops a service, those that depend on it first, and waits until its process is gone. A stopped or
	// absent service is no error.
	Stop(ctx context.Context, name string) error
	// Delete stops a service, as Stop does, and removes it. One that is still running, because it is the one that asks, goes
	// when it has stopped. An absent service is no error.
	Delete(ctx context.Context, name string) error
}

// Changes is what the service control manager tells of itself.
type Changes interface {
	// Watch sends whenever the state of one of the services changed, or somebody changed its declaration or deleted it,
	// until ctx is done; then it closes the channel. Several changes may become one message, and there may be messages
	// without a change. A name that is not there is no error.
	Watch(ctx context.Context, names []string) (<-chan struct{}, error)
}

// Service is a service as it is on the host.
type Service struct {
	desired.Service
	// State is what the SCM says.
	State ServiceState
	// PID of its process; 0 when it does not run.
	PID uint32
	// ExitCode of its last process.
	ExitCode uint32
}

// ServiceState is the state of a service, as the SCM names it.
type ServiceState string

// The states of a service.
const (
	Stopped  ServiceState = "Stopped"
	Starting ServiceState = "StartPending"
	Running  ServiceState = "Running"
	Stopping ServiceState = "StopPending"
	Paused   ServiceState = "Paused"
)

// Environment is the environment of the machine. Services see a change of it after the next start of Windows, when
// the SCM reads it; what a service needs earlier belongs in its own environment, desired.Service.
type Environment interface {
	// Set gives the machine these variables with these values, literally: no %NAME% in them is replaced. Those of
	// ours that have no value are removed. No other variable is touched, and nothing is written that is there.
	// Names are the same when they differ in case only. changed has the names of the variables that were set or
	// removed, sorted, also with an error. Values may be secret: they are in no error and no log. Variables that
	// CheckVariables refuses are an error, and nothing changes.
	Set(ctx context.Context, variables map[string]string, ours []string) (changed []string, err error)
}

// CheckVariables refuses what Windows cannot keep as variables of an environment. Its error names the variable, and
// never tells its value.
func CheckVariables(variables map[string]string) error {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		key := strings.ToLower(name)
		switch other, twice := seen[key]; {
		case twice:
			return fmt.Errorf("variables %q and %q are one for Windows, which ignores case: keep one of them", other, name)
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("%q cannot name a variable: a name has at least one character, and neither an equals sign nor a zero byte", name)
		case strings.ContainsRune(variables[name], 0):
			return fmt.Errorf("the value of variable %q has a zero byte, where Windows would end it: remove the byte", name)
		}
		seen[key] = name
	}
	return nil
}

// Certificates are the root certificates that this machine trusts because somebody put them into its store, which
// Windows calls LocalMachine\Root. Those that come with Windows or by a group policy are none of them. Two certificates
// are the same when all their bytes are, whatever their subjects and serial numbers.
type Certificates interface {
	// List returns the SHA-256 of the DER of each certificate in lower-case hexadecimal digits, sorted.
	List(ctx context.Context) ([]string, error)
	// Add adds a certificate, which is DER. added is false when it was there. What is not exactly one certificate is
	// an error.
	Add(ctx context.Context, der []byte) (added bool, err error)
	// Remove removes the certificate with a SHA-256, as List gives it. An absent one is no error; then removed is
	// false.
	Remove(ctx context.Context, hash string) (removed bool, err error)
}

// Probes asks services whether they work. They are asked on the host itself and past any proxy.
type Probes interface {
	// Probe returns nil when a service answers well at an address, as desired.Service.Ready describes it, and else says what
	// came instead. It gives up with ctx.
	Probe(ctx context.Context, address string) error
}

// Images are those of the container runtime, for pods.
type Images interface {
	// Look returns the image of a whole name, registry and tag or digest included, if the runtime has it with all its layers. It is quick.
	// That the runtime does not answer is an error.
	Look(ctx context.Context, name string) (image cri.Image, found bool, err error)
	// Pull pulls an image from its registry, or a mirror, and unpacks it, also where it is there already. It takes as long as that takes, or
	// until ctx ends. What the runtime says of an image that it cannot get is a *cri.Error; that it does not answer is another error, or one
	// with code cri.Unavailable or cri.Canceled. A pull pins the image that the runtime's configuration has for sandboxes.
	Pull(ctx context.Context, name string, l cri.Login) error
}

// Runtime is the container runtime.
type Runtime interface {
	// NetworkReady tells whether it has read a configuration of the network of pods. It is quick. That the runtime does not answer is an error.
	NetworkReady(ctx context.Context) (bool, error)
}

// Containers are what containerd, its shims and its network plugins made of parts of Windows. It goes on, or stays, when their
// processes have ended.
type Containers interface {
	// List returns the names of the containers that containerd's shims made and that exist still, sorted. An error means that the Host
	// Compute Service does not answer. It ends with ctx.
	List(ctx context.Context) ([]string, error)
	// End ends a container with all its processes, and waits until it is gone. An absent one is no error.
	End(ctx context.Context, name string) error
	// RemoveNamespace removes the network of a pod: the namespace with this GUID, and the endpoints in it. An absent one is
	// no error; then removed is false.
	RemoveNamespace(ctx context.Context, id string) (removed bool, err error)
	// RemoveLayer removes the folder of a layer of an image or container, whose files belong to Windows' installer and can be
	// in use by its filters. An absent one is no error.
	RemoveLayer(ctx context.Context, folder string) error
	// EndPrograms ends the processes whose program lies below a folder, but for the process that asks, and waits until they
	// are gone. It returns the paths of the programs, sorted, also with an error.
	EndPrograms(ctx context.Context, folder string) (ended []string, err error)
}

// NextStart is what happens when Windows starts the next time.
type NextStart interface {
	// Waits says why Windows itself waits for a restart. It is quick.
	Waits(ctx context.Context) (Waits, error)
	// Unfinished says what Windows has begun and not finished. It is quick.
	Unfinished(ctx context.Context) (Unfinished, error)
	// Boot names the present start of Windows, as Facts do and as the kubelet does in the status of its Node. It is quick.
	Boot(ctx context.Context) (id string, err error)
	// Rename gives the host another DNS host name from then on, and the NetBIOS name that its first 15 characters make. Facts
	// tell the name that it has until then. A name that Windows does not take is an error.
	Rename(ctx context.Context, hostname string) error
}

// Host is everything the daemon needs of the machine: its Windows, its services, its settings, its programs, its drive, and
// its network.
type Host struct {
	System   System
	Rights   Rights
	Services Services
	Changes  Changes
	// Programs runs commands on the host itself: the full path of a program without spaces in it, and its arguments. A
	// program ends with ctx at the latest.
	Programs     agent.Runner
	Probes       Probes
	Runtime      Runtime
	Images       Images
	Environment  Environment
	Certificates Certificates
	Containers   Containers
	NextStart    NextStart
	Networks     Networks
	HNSState     HNSState
	Firewall     Firewall
	Defender     Defender
	Memory       Memory
	Accounts     Accounts
	Routes       Routes
	EventLogs    EventLogs
	Inventory    Inventory
	HostNetwork  HostNetwork
	Disk         Disk
	// Dial makes connections to the API server, to the metadata service of a cloud and to registries; nil takes this machine's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolve is the addresses of a DNS name; nil asks this machine's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Listen opens ports on loopback; nil takes this machine's network.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
}

// MakePrivate closes a file or folder to everybody but the system and its administrators, where it is not so already.
func (h Host) MakePrivate(name string) error {
	if ours, _, err := h.Rights.Look(name, Private); err != nil || ours {
		return err
	}
	return h.Rights.Protect(name, Private)
}

// ErrNotFound is what a port returns for a service or feature that does not exist.
var ErrNotFound = fs.ErrNotExist

// ErrNoNumber is what HNSState.Get returns for a value that is no DWORD.
var ErrNoNumber = errors.New("not a DWORD")

// ErrDeleted is what Services.Put returns for a service that somebody deleted while it runs.
var ErrDeleted = errors.New("deleted, and goes when it has stopped")

// ErrLocked is what System.Lock returns when somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

// ErrBusy means that Windows could not do it now, whatever was asked: the same may succeed in a moment.
var ErrBusy = errors.New("Windows is busy")
