// Package desired computes what a Windows node must have: folders, files, services and their order.
//
// Render turns what was read from the cluster (Inputs) into a Node; WICD makes the host equal to it. The package is pure: it reads no
// file, clock or network, and does not need Windows. Paths are strings, and the output is compared with golden files.
package desired

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/payload"
)

// Node is everything a host must have to be a node. It holds no secrets; those are in Secrets. Values that differ between hosts are
// placeholders, which On replaces.
type Node struct {
	// Version is the node's version annotation once the host has everything in this Node.
	Version string `json:"version"`
	// Digest identifies the payload; its files live in C:\k\versions\<first twelve digits>.
	Digest string `json:"digest"`
	// Windows features that must be enabled.
	Features []string `json:"features,omitempty"`
	// Directories that must exist.
	Directories []string `json:"directories,omitempty"`
	// Payload are the files of the version's folder.
	Payload []PayloadFile `json:"payload,omitempty"`
	// Files are small files with their content.
	Files []File `json:"files,omitempty"`
	// Services in the order in which they start.
	Services []Service `json:"services,omitempty"`
	// SandboxImage is the sandbox (pause) image of pods. On a host it is the one in use: see Local.
	SandboxImage string `json:"sandboxImage,omitempty"`
	// Images are pulled before pods need them, in this order.
	Images []Image `json:"images,omitempty"`
	// TaintValue is the value of the Node's taint os; api.TaintValue if empty.
	TaintValue string `json:"taintValue,omitempty"`
	// CNI is the configuration of the pod network. It is filled in when the node's pod CIDR is known.
	CNI *CNI `json:"cni,omitempty"`
	// Network is a network that a service creates and WICD monitors; nil if CNI is sufficient.
	Network *Network `json:"network,omitempty"`
	// UserNetwork is a network that the user supplies, with its own programs or installer.
	UserNetwork *UserNetwork `json:"userNetwork,omitempty"`
	// Policies are the settings of NetworkPolicies for pods of the node; nil if it ignores them.
	Policies *Policies `json:"policies,omitempty"`
	// WindowsUpdates is what WICD does about Windows updates; it asks and reports if empty.
	WindowsUpdates UpdatePolicy `json:"windowsUpdates,omitempty"`
	// UpdatesToInstall selects the Windows updates that WICD downloads, and installs when the operator requests it; nil if it installs none.
	UpdatesToInstall *windowsupdate.Selection `json:"updatesToInstall,omitempty"`
	// UpdateGoal is the update level that hosts must reach; a host below it is overdue.
	UpdateGoal windowsupdate.Goal `json:"updateGoal,omitzero"`
	// Registries determines where images are pulled from; if nil, from the registry in their name. WICD serves it to containerd on loopback.
	Registries *mirrors.Table `json:"registries,omitempty"`
	// Environment are variables of the machine. Each service gets those that it reads, from these and from Secrets.
	Environment map[string]string `json:"environment,omitempty"`
	// WatchedEnvironment are the variables that the operator owns. Those without a value are removed from the machine.
	WatchedEnvironment []string `json:"watchedEnvironment,omitempty"`
	// Certificates are the trusted certificates of the store LocalMachine\Root, as PEM.
	Certificates string `json:"certificates,omitempty"`
	// Firewall are the rules that admit traffic to services of the node.
	Firewall []FirewallRule `json:"firewall,omitempty"`
	// Exclusions are what Microsoft Defender does not scan on the host.
	Exclusions Exclusions `json:"exclusions,omitzero"`
	// Routes are those that the host must have in addition to its own.
	Routes []Route `json:"routes,omitempty"`
	// Logs limits the services' logs on the host.
	Logs LogLimits `json:"logs,omitzero"`
	// AuthorizedKeys are the public keys with which the operator logs in, as lines of authorized_keys. The host accepts each.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
	// RetiredKeys are keys that the operator no longer uses. The host removes them, and keys that it accepted before and that are no
	// longer among AuthorizedKeys, once annotation pub-key-hash of its Node is the hash of one of AuthorizedKeys.
	RetiredKeys []string `json:"retiredKeys,omitempty"`
	// SigningKey is the public key (Ed25519, in base64) that verifies what is published for nodes. The host ignores everything that is not
	// signed with it, and everything if it is empty.
	SigningKey string `json:"signingKey,omitempty"`
	// SecretsVersion is the version of the Secrets that belong to this Node; empty if there are none.
	SecretsVersion string `json:"secretsVersion,omitempty"`
}

// Secrets is the confidential part of what a node must have.
type Secrets struct {
	// Version is the SHA-256 of the content, in hex. It reveals nothing about the content, because that includes Salt.
	Version string `json:"version,omitempty"`
	// Salt is random and changes with each change of the content. Without it, a short password could be guessed from Version.
	Salt string `json:"salt,omitempty"`
	// Files are files that contain secrets.
	Files []File `json:"files,omitempty"`
	// Environment are variables that contain secrets. Services get those that they read, the machine gets none.
	Environment map[string]string `json:"environment,omitempty"`
}

// PayloadFile is one file of the payload on the host.
type PayloadFile struct {
	// Path below the version's folder, and below C:\k, where it has its usual name; with backslashes.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// File is a small file with its content.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	// Secret restricts reading to SYSTEM and Administrators, wherever the file is. On sets it for all files of Secrets.
	Secret bool `json:"secret,omitempty"`
}

// Service is the complete declaration of a Windows service, so that applying it twice changes nothing.
type Service struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Command is the full command line. It may contain ${NODE_NAME}, ${NODE_IP} and ${NODE_ADAPTER}.
	Command string `json:"command"`
	// DependsOn are the services that must run before this one.
	DependsOn []string `json:"dependsOn,omitempty"`
	// Ready is the address at which the service answers once it works. Services that depend on it are started only then. It is on the host
	// itself: http://127.0.0.1:<port>/<path>, which answers a GET with status 200, or npipe://./pipe/<name>, on which a container runtime
	// answers the call Version. If empty, the service works as soon as it runs.
	Ready string `json:"ready,omitempty"`
	// Environment are variables of the service's process, in addition to those of the machine. Values may contain the same variables as
	// Command.
	Environment map[string]string `json:"environment,omitempty"`
	// Reads are the variables of the node's environment that the process gets. The service is restarted when one changes.
	Reads []string `json:"reads,omitempty"`
	// Needs are files that other programs create, and without which the process would exit immediately. The service is started only when
	// all of them exist. Reacting to later changes is up to the process.
	Needs []string `json:"needs,omitempty"`
	// Log is the log file of the process.
	Log Log `json:"log,omitzero"`
}

// Log is the file that a service writes.
type Log struct {
	// Path of the file. Rotated files are next to it: kubelet.log becomes kubelet-20060102-150405.log.
	Path string `json:"path"`
	// Rotates is true if the process rotates the file itself, as kube-log-runner does. Otherwise WICD copies the file and truncates it.
	Rotates bool `json:"rotates,omitempty"`
}

// LogLimits bounds every log of a service: the current file and the rotated ones.
type LogLimits struct {
	// Size in bytes at which a file is rotated.
	Size int64 `json:"size"`
	// Age is how long a rotated file is kept.
	Age metav1.Duration `json:"age"`
	// Count is how many rotated files are kept.
	Count int `json:"count"`
}

// CNI is the user's CNI configuration.
type CNI struct {
	Path string `json:"path"`
	// Content has {{.PodCIDR}} and {{.NodeIP}} where each node inserts its own values.
	Content string `json:"content"`
}

// Inputs are what Render needs about the cluster, the payload and the host.
type Inputs struct {
	// Version is the name of the release, which nodes report.
	Version string
	// Payload is the content for this node, already selected.
	Payload payload.Manifest
	Cluster Cluster
	Config  v1alpha1.WindowsConfigSpec
	// Settings apply to all nodes and do not come from Config alone.
	Settings Settings
}

// Cluster is what every node must know about its cluster.
type Cluster struct {
	// ID is the UID of namespace kube-system.
	ID string
	// Server is the URL at which hosts reach the API server, ServerFrom the object and field that it was read from.
	Server, ServerFrom string
	// CA is the PEM bundle that verifies the API server's certificate.
	CA string
	// KubeletClientCA is the PEM bundle that verifies clients of the kubelet.
	KubeletClientCA string
	// ServiceCIDRs are all IPv4 ranges of Services, none of them within another, with the cluster's first range first.
	ServiceCIDRs []string
	// DNSServers are the IPv4 addresses at which pods reach the cluster's DNS.
	DNSServers []string
	// Domain is the DNS domain of the cluster, such as cluster.local. DomainAssumed is true if no object in the cluster names it: Domain
	// is then the default of Kubernetes.
	Domain        string
	DomainAssumed bool
	// Network is what nodes must know about the pod network.
	Network ClusterNetwork
	// CloudProvider determines which component initializes nodes.
	CloudProvider platform.Provider
}
