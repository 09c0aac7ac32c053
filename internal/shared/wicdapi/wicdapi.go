// Package wicdapi defines the protocol between the operator and WICD, the program on a Windows host.
//
// Each command of WICD (facts, reach, receive, prepare, join, leave, restart, install-updates, status) reads one JSON request on stdin and writes JSON lines on
// stdout: any number of steps, then one result or one error with a stable code. This package holds the requests and results, their limits,
// and both ends of the protocol: Call and Send for the operator, Session for WICD.
package wicdapi

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Commands of WICD that the operator calls.
const (
	// CommandFacts reports facts about the host (no request, result Facts). It changes nothing. With flag --platform, it also queries that
	// platform for the host's name.
	CommandFacts = "facts"
	// CommandReach checks whether the host reaches the API server (request ReachRequest, result ReachResult). It changes nothing.
	CommandReach = "reach"
	// CommandReceive stores content on the host (request ReceiveRequest, then bytes; result ReceiveResult).
	CommandReceive = "receive"
	// CommandPrepare enables Windows features on a host that an image is made from, and pulls the sandbox image (request PrepareRequest, result
	// PrepareResult). The host keeps no other state of it. It fails on a node. It is idempotent.
	CommandPrepare = "prepare"
	// CommandJoin configures the host as requested (request JoinRequest, result JoinResult). It is idempotent.
	CommandJoin = "join"
	// CommandLeave removes everything that belongs to the operator from the host (request LeaveRequest, result LeaveResult). It is idempotent.
	CommandLeave = "leave"
	// CommandRestart restarts the host, unless it has restarted since (request RestartRequest, result RestartResult). It fails while Windows
	// sets itself up, or installs features or updates after its start. It is idempotent.
	CommandRestart = "restart"
	// CommandInstallUpdates has WICD install Windows updates (request InstallUpdatesRequest, result InstallUpdatesResult). It returns at once; the
	// Node reports the progress. It is idempotent.
	CommandInstallUpdates = "install-updates"
	// CommandStatus reports the state of the services and certificates, and the last steps (no request, result Status).
	CommandStatus = "status"
)

// Facts are what WICD knows about its host. They contain no secrets.
type Facts struct {
	// Program is the SHA-256, in hex, of the WICD that responds.
	Program string `json:"program"`
	// Host is what Windows reports.
	Host HostFacts `json:"host"`
	// Services are those on the host with a name of the operator's services. Ours is true for those made by WICD or the original operator.
	Services []ServiceFacts `json:"services,omitempty" max:"64"`
	// Engines are other container engines that run as services on the host, such as Docker.
	Engines []ServiceFacts `json:"engines,omitempty" max:"8"`
	// Joined is what the last join left; nil on a fresh host, while an interrupted join or leave waits to be repeated, and on a host that left.
	Joined *Joined `json:"joined,omitempty"`
	// Platform is where the host runs, by OpenShift's name. The operator fills it in.
	Platform string `json:"-"`
	// Reached is the address at which the operator reached the host. The operator fills it in.
	Reached netip.Addr `json:"-"`
	// CloudName is the host's name in the platform's metadata service, which its node must have; NoCloudName is why a requested name is
	// missing.
	CloudName   string `json:"cloudName,omitempty"`
	NoCloudName string `json:"noCloudName,omitempty"`
}

// FlagPlatform is the flag of CommandFacts with the platform whose metadata service is queried.
const FlagPlatform = "platform"

// HostFacts are what Windows reports about the host.
type HostFacts struct {
	// Hostname is the DNS host name, without domain, as Windows spells it.
	Hostname string `json:"hostname"`
	// Domain is the primary DNS suffix; empty if the host has none.
	Domain string `json:"domain,omitempty"`
	// Build and UBR are the last two numbers of the version, 20348 and 2402 in 10.0.20348.2402.
	Build int `json:"build"`
	UBR   int `json:"ubr"`
	// Product is the display name: "Windows Server 2022 Datacenter".
	Product string `json:"product"`
	// Installation is Server, Server Core, Nano Server or Client (registry value InstallationType).
	Installation string `json:"installation"`
	// Architecture is that of the machine, by Go's name: amd64, arm64, 386.
	Architecture string `json:"architecture"`
	// BootID changes with every start (registry value BootId; the kubelet reports the same).
	BootID string `json:"bootID"`
	// Clock is the host's time, UTC.
	Clock time.Time `json:"clock"`
	// Interfaces are those that are up, except loopback.
	Interfaces []Interface `json:"interfaces" max:"128"`
	// SystemDrive is the drive of Windows: C:. WICD of an earlier version does not report it.
	SystemDrive string `json:"systemDrive,omitempty"`
	// FreeBytes of the DiskBytes of drive C:, MemoryBytes of the machine. WICD of an earlier version does not report DiskBytes.
	FreeBytes   uint64 `json:"freeBytes"`
	DiskBytes   uint64 `json:"diskBytes,omitempty"`
	MemoryBytes uint64 `json:"memoryBytes"`
	// Processors and NUMANodes are how many the machine has; 0 if Windows, or WICD of an earlier version, does not report it.
	Processors int `json:"processors,omitempty"`
	NUMANodes  int `json:"numaNodes,omitempty"`
	// Virtualization is the host's support for virtual machines of its own.
	Virtualization Virtualization `json:"virtualization,omitzero"`
	// PendingReboot lists why Windows itself waits for a restart; empty if it does not.
	PendingReboot []string `json:"pendingReboot,omitempty" max:"32"`
	// Adapters are the hardware adapters, including those that look like hardware in a virtual machine. An adapter below a virtual switch has
	// no addresses, so it is not among Interfaces. Empty if Windows does not report them.
	Adapters []Adapter `json:"adapters,omitempty" max:"128"`
	// Listeners are all programs that listen on ports that a node needs.
	Listeners []Listener `json:"listeners,omitempty" max:"64"`
	// RuntimePipe is true if a program, containerd or another, listens on containerd's named pipe.
	RuntimePipe bool `json:"runtimePipe,omitempty"`
	// Unread maps each fact that could not be read, by one of the constants below, to the cause. Only steps that need the fact fail.
	Unread map[string]string `json:"unread,omitempty" max:"16"`
}

// Facts that Windows may fail to report.
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
		if reason, unread := f.Unread[name]; unread {
			return fmt.Errorf("reading %s of the host: %s", name, reason)
		}
	}
	return nil
}

// FeatureState is the state of a Windows feature.
type FeatureState string

// States of a Windows feature.
const (
	FeatureEnabled  FeatureState = "Enabled"
	FeatureDisabled FeatureState = "Disabled"
	// FeaturePending means enabled with effect from the next start.
	FeaturePending FeatureState = "Pending"
	// FeatureUnknown means that Windows does not have the feature or does not report its state.
	FeatureUnknown FeatureState = "Unknown"
)

// Virtualization is a host's support for virtual machines of its own.
type Virtualization struct {
	// Processor is true if the processor supports Hyper-V, and the firmware, or the hypervisor below a virtual machine, lets Windows use that.
	// While Hyper-V runs, it owns the support, and Windows may report it as missing.
	Processor bool `json:"processor,omitempty"`
	// Hypervisor is the name of the hypervisor below Windows, as reported by the processor: "KVMKVMKVM", or "Microsoft Hv". Empty if there is
	// none.
	Hypervisor string `json:"hypervisor,omitempty"`
	// HyperV is true if Hyper-V runs and this Windows may create virtual machines.
	HyperV bool `json:"hyperV,omitempty"`
}

// Interface is one network interface.
type Interface struct {
	// Name is its alias: "Ethernet 2".
	Name string `json:"name"`
	// Index is its number, and GUID its name in Windows, in lower case without braces. Both change when the adapter is replaced, and the index
	// also with each start.
	Index uint32 `json:"index,omitempty"`
	GUID  string `json:"guid,omitempty"`
	// MAC is its link-layer address: 00-15-5d-0a-0b-0c.
	MAC string `json:"mac,omitempty"`
	// Addresses are IPv4 and IPv6 addresses, with the network's prefix length.
	Addresses []netip.Prefix `json:"addresses" max:"256"`
	// DefaultRoute is true for the interface whose IPv4 default route has the lowest metric. Metric is that of the interface's best IPv4
	// default route, including the interface metric; 0 also if it has none.
	DefaultRoute bool   `json:"defaultRoute,omitempty"`
	Metric       uint32 `json:"metric,omitempty"`
	// VLAN is the virtual LAN that the adapter's driver is configured for; 0 for none.
	VLAN uint16 `json:"vlan,omitempty"`
	// Virtual is true if Windows reports that the interface is not hardware, Connector if it reports a physical connector. Both are meaningful
	// only if the host has Adapters.
	Virtual   bool `json:"virtual,omitempty"`
	Connector bool `json:"connector,omitempty"`
	// States are further properties of the addresses. WICD of an earlier version reports none.
	States []AddressState `json:"states,omitempty" max:"256"`
	// DHCP is true if the interface gets its IPv4 settings by DHCP. DNS are its DNS servers, Suffix is its DNS suffix, and MTU that of IPv4;
	// empty if reported by WICD of an earlier version.
	DHCP   bool         `json:"dhcp,omitempty"`
	DNS    []netip.Addr `json:"dns,omitempty" max:"64"`
	Suffix string       `json:"suffix,omitempty"`
	MTU    uint32       `json:"mtu,omitempty"`
}

// AddressState is the state of an address of an interface.
type AddressState struct {
	Address netip.Addr `json:"address"`
	// Static is true for an address that was configured, not assigned by DHCP or a router.
	Static bool `json:"static,omitempty"`
	// State is Preferred, or why Windows does not start connections from it: Tentative, Deprecated or Invalid (IP_DAD_STATE).
	State string `json:"state"`
	// SkipAsSource is true for an address that Windows never chooses as source. Cluster is true for the address of a failover cluster, which
	// moves to another host.
	SkipAsSource bool `json:"skipAsSource,omitempty"`
	Cluster      bool `json:"cluster,omitempty"`
}

// Adapter is a network adapter.
type Adapter struct {
	// Name is its alias, and MAC its link-layer address, as in Interface.
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
	// Node is the name that the kubelet registers, NodeIP its address; empty if reported by WICD of an earlier version.
	Node   string `json:"node"`
	NodeIP string `json:"nodeIP,omitempty"`
	// Digest is that of the installed payload, and Version what WICD reports for it.
	Digest  string `json:"digest"`
	Version string `json:"version"`
	// HasCertificate is true if WICD has its own valid certificate.
	HasCertificate bool `json:"hasCertificate"`
}

// ReachRequest requests a check of whether the host reaches the cluster's API server.
type ReachRequest struct {
	// Server is the URL of the API server, CA the PEM bundle that verifies its certificate.
	Server string `json:"server"`
	CA     string `json:"ca"`
}

// ReachResult is the result of that check.
type ReachResult struct {
	// Resolved are the addresses of the server's name on the host; empty if Server contains an address.
	Resolved []netip.Addr `json:"resolved,omitempty" max:"16"`
	// Failure is what failed; empty if the cluster's API server responded.
	Failure string `json:"failure,omitempty"`
}

// Content is one file of the payload for the transfer.
type Content struct {
	// SHA256 and Size of the file on the host.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// CompressedSize is the number of bytes on the wire, in the form of package compress.
	CompressedSize int64 `json:"compressedSize"`
	// Dictionary is the SHA256 of the content with which it was compressed, an earlier one in the list; empty for none.
	Dictionary string `json:"dictionary,omitempty"`
}

// ReceiveRequest lists everything that the host must have in its store.
type ReceiveRequest struct {
	Content []Content `json:"content"`
}

// Missing is a content that the host lacks, with the number of compressed bytes that it already has.
type Missing struct {
	SHA256 string `json:"sha256"`
	Offset int64  `json:"offset"`
}

// ReceiveResult reports what was transferred.
type ReceiveResult struct {
	// Files and Bytes (compressed) that were received this time.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Altered are the hashes of stored contents that no longer matched their hash and were replaced.
	Altered []string `json:"altered,omitempty" max:"512"`
}

// JoinRequest is everything that a host needs to join.
type JoinRequest struct {
	// Cluster is the UID of the cluster's namespace kube-system.
	Cluster string `json:"cluster"`
	// Namespace is the operator's namespace, where the host will find its declaration.
	Namespace string `json:"namespace"`
	// Local has the values of this host. The node's name is the host's own, in lower case, or its name on the platform.
	desired.Local
	// Desired is what the host must have, and Secrets its confidential part. The request is never logged.
	Desired desired.Node    `json:"desired"`
	Secrets desired.Secrets `json:"secrets,omitzero"`
	// Serial is the serial with which Desired was signed: the host then ignores settings of its version with a lower one.
	Serial int64 `json:"serial,omitempty"`
	// Published is Desired as it was published, and takes precedence if set. It lets WICD call the WICD of a later version, which may know more
	// of its parts.
	Published map[string]string `json:"published,omitempty"`
	// Bootstrap gives access to the cluster until the host has its own certificates.
	Bootstrap Bootstrap `json:"bootstrap"`
	// Register is true if the cluster has no Node for this host: a running kubelet must restart, because it registers its Node only when it
	// starts.
	Register bool `json:"register,omitempty"`
	// Hostname is the DNS host name to set in Windows; empty keeps the current one. A new name takes effect with a restart, which MayReboot
	// must allow. The node's name is always that of Local.
	Hostname string `json:"hostname,omitempty"`
	// MayReboot allows WICD to restart the host when a step needs it.
	MayReboot bool `json:"mayReboot"`
	// Retried is when the user last requested a retry of what failed; empty for never. WICD restarts the host once for each cause, and again
	// after such a request.
	Retried string `json:"retried,omitempty"`
}

// Bootstrap is short-lived access to the cluster. It holds a secret: it is never logged.
type Bootstrap struct {
	// Server is the URL of the API server.
	Server string `json:"server"`
	// CA is the PEM bundle that verifies the API server's certificate.
	CA string `json:"ca"`
	// Token of the bootstrap ServiceAccount, valid for 15 minutes at most.
	Token string `json:"token"`
}

// JoinResult is the result of a join.
type JoinResult struct {
	// Rebooting is the reason if the host is restarting and the join must be repeated afterwards.
	Rebooting string `json:"rebooting,omitempty"`
	// BootID of the host when it responded, to detect a restart.
	BootID string `json:"bootID"`
	// Changed lists what was changed.
	Changed []string `json:"changed,omitempty" max:"1024"`
}

// LeaveRequest requests that a host returns to its state before the join.
type LeaveRequest struct {
	// Cluster is the UID of the cluster's namespace kube-system. A host of another cluster is left alone.
	Cluster string `json:"cluster"`
}

// LeaveResult reports what was removed. It is empty for a host that has nothing of the operator.
type LeaveResult struct {
	// Removed lists what was removed, in order.
	Removed []string `json:"removed,omitempty" max:"1024"`
	// Remains lists what stayed although it belongs to the operator, except journal and logs, each with the reason. Most of it is removed if
	// the command is repeated after a restart.
	Remains []string `json:"remains,omitempty" max:"1024"`
}

// Status is the state of WICD's services and certificates.
type Status struct {
	Joined   *Joined        `json:"joined,omitempty"`
	Services []ServiceFacts `json:"services,omitempty" max:"64"`
	// Certificates maps the file of each certificate of the node to its expiry.
	Certificates map[string]time.Time `json:"certificates,omitempty" max:"32"`
	// Journal is the last lines of the journal, oldest first.
	Journal []JournalEntry `json:"journal,omitempty" max:"64"`
}

// JournalEntry is one step that changed the host, as stored in C:\k\state\journal.jsonl.
type JournalEntry struct {
	Time     time.Time     `json:"time"`
	Step     string        `json:"step"`
	Change   string        `json:"change,omitempty"`
	Duration time.Duration `json:"durationNanoseconds,omitempty"`
	Error    string        `json:"error,omitempty"`
}
