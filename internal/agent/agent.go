// Package agent is the conversation between the operator and WICD, the program on a Windows host.
//
// Each command of WICD (facts, reach, receive, join, leave, restart, status) reads one JSON request on stdin and writes JSON lines on
// stdout: any number of steps, then one result or one error with a stable code. This package holds the
// requests and results, their limits, and both ends of the conversation: Call and Send for the operator, Serve and Receive's
// messages for WICD.
package agent

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// The commands of WICD that the operator calls.
const (
	// CommandFacts reports what the host is (no request, result Facts). It changes nothing. Told of a platform (flag --platform), it
	// also asks that for the host's name.
	CommandFacts = "facts"
	// CommandReach tries whether the host reaches the API server (request ReachRequest, result ReachResult). It changes nothing.
	CommandReach = "reach"
	// CommandReceive takes content into the host's store (request ReceiveRequest, then bytes; result ReceiveResult).
	CommandReceive = "receive"
	// CommandJoin makes the host what the request says (request JoinRequest, result JoinResult). It may be repeated.
	CommandJoin = "join"
	// CommandLeave takes everything of ours off the host (request LeaveRequest, result LeaveResult). It may be repeated.
	CommandLeave = "leave"
	// CommandRestart restarts the host, unless it has restarted since (request RestartRequest, result RestartResult). While Windows sets itself
	// up, or installs features or updates after its start, it is an error. It may be repeated.
	CommandRestart = "restart"
	// CommandStatus reports how the services, certificates and last steps are (no request, result Status).
	CommandStatus = "status"
)

// Facts are what WICD sees of its host. Nothing in it is secret.
type Facts struct {
	// Program is the SHA-256, in hex, of the WICD that answers.
	Program string `json:"program"`
	// Host is what Windows says about itself.
	Host HostFacts `json:"host"`
	// Services are those on the host that bear a name of ours; Ours says whether WICD, or the original operator, made them.
	Services []ServiceFacts `json:"services,omitempty" max:"64"`
	// Engines are the services on the host that are container engines of others, such as Docker.
	Engines []ServiceFacts `json:"engines,omitempty" max:"8"`
	// Joined is what the last join left; nil on a fresh host, while a join or a leave that was cut waits to be repeated, and on a host
	// that left.
	Joined *Joined `json:"joined,omitempty"`
	// Platform is where the host runs, as OpenShift names it. The operator knows it, and fills it in.
	Platform string `json:"-"`
	// Reached is the address at which the operator reached the host. The operator fills it in.
	Reached netip.Addr `json:"-"`
	// CloudName is the name that the platform's metadata service has for the host, and that its node is to have; NoCloudName is why
	// there is none although it was asked for.
	CloudName   string `json:"cloudName,omitempty"`
	NoCloudName string `json:"noCloudName,omitempty"`
}

// FlagPlatform is the flag of CommandFacts that names the platform whose metadata service is asked.
const FlagPlatform = "platform"

// HostFacts are what Windows says about itself.
type HostFacts struct {
	// Hostname is the DNS host name, without domain, as Windows spells it.
	Hostname string `json:"hostname"`
	// Domain is the primary DNS suffix; empty where the host has none.
	Domain string `json:"domain,omitempty"`
	// Build and UBR are the last two numbers of the version, 20348 and 2402 in 10.0.20348.2402.
	Build int `json:"build"`
	UBR   int `json:"ubr"`
	// Product is for people: "Windows Server 2022 Datacenter".
	Product string `json:"product"`
	// Installation is Server, Server Core, Nano Server or Client (registry value InstallationType).
	Installation string `json:"installation"`
	// Architecture is that of the machine as Go names it: amd64, arm64, 386.
	Architecture string `json:"architecture"`
	// BootID changes with every start (registry value BootId; the kubelet reports the same).
	BootID string `json:"bootID"`
	// Clock is the host's time, UTC.
	Clock time.Time `json:"clock"`
	// Interfaces that are up, loopback left out.
	Interfaces []Interface `json:"interfaces" max:"128"`
	// SystemDrive is the drive that Windows is on: C:. A WICD of an earlier version does not say it.
	SystemDrive string `json:"systemDrive,omitempty"`
	// FreeBytes on drive C:, MemoryBytes of the machine.
	FreeBytes   uint64 `json:"freeBytes"`
	MemoryBytes uint64 `json:"memoryBytes"`
	// Processors and NUMANodes are how many the machine has; 0 where Windows does not tell, or a WICD of an earlier version.
	Processors int `json:"processors,omitempty"`
	NUMANodes  int `json:"numaNodes,omitempty"`
	// Virtualization is what the host has for virtual machines of its own.
	Virtualization Virtualization `json:"virtualization,omitzero"`
	// PendingReboot lists why Windows itself waits for a restart; empty when it does not.
	PendingReboot []string `json:"pendingReboot,omitempty" max:"32"`
	// Adapters are the adapters that are hardware, or look like it in a virtual machine. One below a virtual switch has no addresses, so
	// that it is none of Interfaces. Empty where Windows does not tell.
	Adapters []Adapter `json:"adapters,omitempty" max:"128"`
	// Listeners are the programs that listen on ports that a node needs, whoever they belong to.
	Listeners []Listener `json:"listeners,omitempty" max:"64"`
	// RuntimePipe says that some program listens on the named pipe of containerd, ours or another.
	RuntimePipe bool `json:"runtimePipe,omitempty"`
	// Unread maps each fact that could not be read, by one of the constants below, to the cause. Who needs it stops; the others go on.
	Unread map[string]string `json:"unread,omitempty" max:"16"`
}

// Facts that Windows may not tell.
const (
	FactBootID      = "bootID"
	FactHostname    = "hostname"
	FactDomain      = "domain"
	FactInterfaces  = "interfaces"
	FactSystemDrive = "systemDrive"
	FactFreeBytes   = "freeBytes"
	FactMemory      = "memoryBytes"
	FactServices    = "services"
	FactListeners   = "listeners"
	FactRuntimePipe = "runtimePipe"
)

// Must returns an error for the first of these facts that could not be read.
func (f HostFacts) Must(names ...string) error {
	for _, name := range names {
		if why, unread := f.Unread[name]; unread {
			return fmt.Errorf("reading %s of the host: %s", name, why)
		}
	}
	return nil
}

// FeatureState is the state of a Windows feature.
type FeatureState string

// The states of a Windows feature.
const (
	FeatureEnabled  FeatureState = "Enabled"
	FeatureDisabled FeatureState = "Disabled"
	// FeaturePending means enabled with effect from the next start.
	FeaturePending FeatureState = "Pending"
	// FeatureUnknown means that this Windows does not have the feature or cannot say.
	FeatureUnknown FeatureState = "Unknown"
)

// Virtualization is what a host has for virtual machines of its own.
type Virtualization struct {
	// Processor says that the processor has what Hyper-V needs, and that the firmware, or the hypervisor below a virtual machine, lets
	// Windows use it. While Hyper-V runs, it has taken that for itself, and Windows may say that it is not there.
	Processor bool `json:"processor,omitempty"`
	// Hypervisor is the name of the hypervisor below Windows, as the processor has it: "KVMKVMKVM", or "Microsoft Hv". It is empty where
	// there is none.
	Hypervisor string `json:"hypervisor,omitempty"`
	// HyperV says that Hyper-V runs, and that this Windows may create virtual machines.
	HyperV bool `json:"hyperV,omitempty"`
}

// Interface is one network interface.
type Interface struct {
	// Name is what people know it by (its alias): "Ethernet 2".
	Name string `json:"name"`
	// Index is its number, and GUID its name for Windows, in lower case without braces. Windows gives both anew when the adapter is
	// another one, and the index with each start.
	Index uint32 `json:"index,omitempty"`
	GUID  string `json:"guid,omitempty"`
	// MAC is its address on the link: 00-15-5d-0a-0b-0c.
	MAC string `json:"mac,omitempty"`
	// Addresses are IPv4 and IPv6 addresses, with the length of the network's prefix.
	Addresses []netip.Prefix `json:"addresses" max:"256"`
	// DefaultRoute is true on the interface with the IPv4 default route of the lowest metric. Metric is that of the interface's own
	// best IPv4 default route, with the interface's share; 0 also where it has none.
	DefaultRoute bool   `json:"defaultRoute,omitempty"`
	Metric       uint32 `json:"metric,omitempty"`
	// VLAN is the virtual LAN that the adapter's driver was told to put its packets into; 0 where it was told none.
	VLAN uint16 `json:"vlan,omitempty"`
	// Virtual is true where Windows says that the interface is no hardware, Connector where it says that something can be plugged in. Both
	// mean something only if the host has Adapters.
	Virtual   bool `json:"virtual,omitempty"`
	Connector bool `json:"connector,omitempty"`
	// States are what Windows says of the addresses besides. An older WICD says nothing of any.
	States []AddressState `json:"states,omitempty" max:"256"`
	// DHCP is true where the interface gets its IPv4 settings by DHCP. DNS are its DNS servers, Suffix is its DNS suffix, and MTU that of
	// IPv4; empty where an older WICD answers.
	DHCP   bool         `json:"dhcp,omitempty"`
	DNS    []netip.Addr `json:"dns,omitempty" max:"64"`
	Suffix string       `json:"suffix,omitempty"`
	MTU    uint32       `json:"mtu,omitempty"`
}

// AddressState is how an address of an interface is.
type AddressState struct {
	Address netip.Addr `json:"address"`
	// Static is true for one that was configured, and is neither from DHCP nor from a router.
	Static bool `json:"static,omitempty"`
	// State is Preferred, or why Windows does not begin connections with it: Tentative, Deprecated or Invalid (IP_DAD_STATE).
	State string `json:"state"`
	// SkipAsSource is true for one that Windows uses for no connection of its own. Cluster is true for one of a failover cluster, which
	// moves to another host.
	SkipAsSource bool `json:"skipAsSource,omitempty"`
	Cluster      bool `json:"cluster,omitempty"`
}

// Adapter is a network adapter.
type Adapter struct {
	// Name is its alias, and MAC its address on the link, as in Interface.
	Name string `json:"name"`
	MAC  string `json:"mac,omitempty"`
}

// ServiceFacts is one service on the host.
type ServiceFacts struct {
	Name    string `json:"name"`
	Command string `json:"command"`
	State   string `json:"state"`
	Ours    bool   `json:"ours"`
}

// Joined is what a completed join left on the host.
type Joined struct {
	// Cluster is the UID of the cluster's namespace kube-system.
	Cluster string `json:"cluster"`
	// Node is the name the kubelet registers, NodeIP the address that it has; empty where an older WICD answers.
	Node   string `json:"node"`
	NodeIP string `json:"nodeIP,omitempty"`
	// Digest of the payload that is installed, and Version that WICD reports for it.
	Digest  string `json:"digest"`
	Version string `json:"version"`
	// HasCertificate says whether WICD holds a certificate of its own that is still valid.
	HasCertificate bool `json:"hasCertificate"`
}

// ReachRequest asks whether the host reaches the cluster's API server.
type ReachRequest struct {
	// Server is the URL of the API server, CA the PEM bundle that its certificate is checked with.
	Server string `json:"server"`
	CA     string `json:"ca"`
}

// ReachResult says whether it does.
type ReachResult struct {
	// Resolved are the addresses that the server's name has on the host; empty where Server has an address.
	Resolved []netip.Addr `json:"resolved,omitempty" max:"16"`
	// Failure is what failed; empty where the cluster's API server answered.
	Failure string `json:"failure,omitempty"`
}

// Content is one file of the payload as it travels.
type Content struct {
	// SHA256 and Size of the file on the host.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// CompressedSize is the number of bytes on the wire, in the form of package compress.
	CompressedSize int64 `json:"compressedSize"`
	// Dictionary is the SHA256 of the content that it was compressed with, which is before it in the list; empty for none.
	Dictionary string `json:"dictionary,omitempty"`
}

// ReceiveRequest lists everything the host must have in its store.
type ReceiveRequest struct {
	Content []Content `json:"content"`
}

// Missing is a content the host lacks, and how many of its compressed bytes it has already.
type Missing struct {
	SHA256 string `json:"sha256"`
	Offset int64  `json:"offset"`
}

// ReceiveResult says what went over the wire.
type ReceiveResult struct {
	// Files and Bytes (compressed) that were received now.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Altered are the hashes of contents that were in the store and did not have their hash any more. They were
	// replaced.
	Altered []string `json:"altered,omitempty" max:"512"`
}

// JoinRequest is everything a host needs to become what the cluster wants.
type JoinRequest struct {
	// Cluster is the UID of the cluster's namespace kube-system.
	Cluster string `json:"cluster"`
	// Namespace is the operator's, where the host finds from now on what it must have.
	Namespace string `json:"namespace"`
	// Local is what the host fills in. The node's name is the host's own, in lower case, or that which the platform has for it.
	desired.Local
	// Desired is what the host must have, and Secrets what goes with it. It is never logged.
	Desired desired.Node    `json:"desired"`
	Secrets desired.Secrets `json:"secrets,omitzero"`
	// Serial is the one with which Desired was signed: from now on, the host follows nothing of its version that has a lower one.
	Serial int64 `json:"serial,omitempty"`
	// Published is Desired as it was published; where it is set, it wins. So a WICD can ask that of a later version, which
	// may know more parts of it.
	Published map[string]string `json:"published,omitempty"`
	// Bootstrap is the way into the cluster until the host has certificates of its own.
	Bootstrap Bootstrap `json:"bootstrap"`
	// Register says that the cluster has no Node of this host: a kubelet that runs must start anew, since it
	// registers its Node only when it starts.
	Register bool `json:"register,omitempty"`
	// Hostname is the DNS host name that Windows shall have; empty keeps what it has. Another name takes effect with a restart,
	// which MayReboot must allow. The node's name is that of Local in any case.
	Hostname string `json:"hostname,omitempty"`
	// MayReboot allows WICD to restart the host when a step needs it.
	MayReboot bool `json:"mayReboot"`
	// Retried says when the user last asked to try again what failed; empty for never. WICD restarts the host for each cause once, and
	// again after the user has asked.
	Retried string `json:"retried,omitempty"`
}

// Bootstrap is a short-lived way into the cluster. It holds a secret: it is never logged.
type Bootstrap struct {
	// Server is the URL of the API server.
	Server string `json:"server"`
	// CA is the PEM bundle the API server's certificate is checked with.
	CA string `json:"ca"`
	// Token of the bootstrap ServiceAccount, valid for 15 minutes at most.
	Token string `json:"token"`
}

// JoinResult says how the join ended.
type JoinResult struct {
	// Rebooting is set when the host restarts now and the join must be repeated after it; it says why.
	Rebooting string `json:"rebooting,omitempty"`
	// BootID of the host when it answered, to tell when it has restarted.
	BootID string `json:"bootID"`
	// Changed lists what was not as it should be and is now.
	Changed []string `json:"changed,omitempty" max:"1024"`
}

// LeaveRequest asks a host to be as it was before it joined.
type LeaveRequest struct {
	// Cluster is the UID of the cluster's namespace kube-system. A host that belongs to another one is left alone.
	Cluster string `json:"cluster"`
}

// LeaveResult says what became of it. It is empty for a host that has nothing of ours.
type LeaveResult struct {
	// Removed lists what was taken off, in order.
	Removed []string `json:"removed,omitempty" max:"1024"`
	// Remains lists what stayed although it is ours, besides journal and logs, each with the reason. Most of it goes when the
	// command is repeated after a restart.
	Remains []string `json:"remains,omitempty" max:"1024"`
}

// RestartRequest asks a host to restart.
type RestartRequest struct {
	// BootID is that of the host when the restart was decided. A host that has another one has restarted since, and is left alone.
	BootID string `json:"bootID"`
	// Comment is what Windows shows, and notes in its log.
	Comment string `json:"comment"`
}

// RestartResult says whether the host restarts.
type RestartResult struct {
	// BootID of the host when it answered.
	BootID string `json:"bootID"`
	// Restarting is false for a host that has restarted since.
	Restarting bool `json:"restarting,omitempty"`
}

// Status is how WICD's services and certificates are.
type Status struct {
	Joined   *Joined        `json:"joined,omitempty"`
	Services []ServiceFacts `json:"services,omitempty" max:"64"`
	// Certificates maps the file of each certificate of the node to the end of its validity.
	Certificates map[string]time.Time `json:"certificates,omitempty" max:"32"`
	// Journal is the last lines of the journal, oldest first.
	Journal []JournalEntry `json:"journal,omitempty" max:"64"`
}

// JournalEntry is one step that changed the host, as kept in C:\k\state\journal.jsonl.
type JournalEntry struct {
	Time     time.Time     `json:"time"`
	Step     string        `json:"step"`
	Change   string        `json:"change,omitempty"`
	Duration time.Duration `json:"durationNanoseconds,omitempty"`
	Error    string        `json:"error,omitempty"`
}
