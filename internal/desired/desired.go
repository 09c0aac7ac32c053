// Package desired says, purely, what a Windows node must have: folders, files, services and their order.
//
// Render turns what was read of the cluster (Inputs) into a Node; WICD makes the host equal to it. Nothing here
// reads a file, a clock or the network, and nothing runs on Windows: paths are strings, and what is rendered is
// compared with golden files.
package desired

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/mirrors"
	"github.com/windows-machine-config/wmco/internal/platform"
	"github.com/windows-machine-config/wmco/payload"
)

// Node is everything a host must have to be a node. It holds no secret: Secrets has those. What differs from host to
// host is left open in it, and filled in by On.
type Node struct {
	// Version is reported as the node's version annotation once all of this holds.
	Version string `json:"version"`
	// Digest identifies the payload; its files live in C:\k\versions\<first twelve digits>.
	Digest string `json:"digest"`
	// Features of Windows that must be enabled.
	Features []string `json:"features,omitempty"`
	// Directories that must exist.
	Directories []string `json:"directories,omitempty"`
	// Payload are the files of the version's folder.
	Payload []PayloadFile `json:"payload,omitempty"`
	// Files are small files with their content.
	Files []File `json:"files,omitempty"`
	// Services in the order in which they start.
	Services []Service `json:"services,omitempty"`
	// SandboxImage is what containerd starts each pod from. On a host it is the one in use: see Local.
	SandboxImage string `json:"sandboxImage,omitempty"`
	// TaintValue is the value of taint os of the Node, api.TaintValue where it is empty.
	TaintValue string `json:"taintValue,omitempty"`
	// CNI is the configuration of the pod network, filled in when the node's pod CIDR is known.
	CNI *CNI `json:"cni,omitempty"`
	// Network is the network that a service makes, and WICD looks after; nil where CNI says all.
	Network *Network `json:"network,omitempty"`
	// UserNetwork is a network that the user supplies, with programs or an installer of its own.
	UserNetwork *UserNetwork `json:"userNetwork,omitempty"`
	// Registries says from where images are pulled; nil: as they are named. WICD serves it to containerd on loopback.
	Registries *mirrors.Table `json:"registries,omitempty"`
	// Environment are variables of the machine. Services get those they read, of these and of the Secrets'.
	Environment map[string]string `json:"environment,omitempty"`
	// WatchedEnvironment are the variables that are ours: those that have no value are removed from the machine.
	WatchedEnvironment []string `json:"watchedEnvironment,omitempty"`
	// Certificates are those to trust, as PEM, in the store LocalMachine\Root.
	Certificates string `json:"certificates,omitempty"`
	// Firewall is what the host's firewall lets in for services of the node.
	Firewall []FirewallRule `json:"firewall,omitempty"`
	// Exclusions are what Microsoft Defender does not scan on the host.
	Exclusions Exclusions `json:"exclusions,omitzero"`
	// Routes are those that the host must have besides its own.
	Routes []Route `json:"routes,omitempty"`
	// Logs says how much of the services' logs stays on the host.
	Logs LogLimits `json:"logs,omitzero"`
	// AuthorizedKeys are public keys, as lines of authorized_keys, with which the operator logs in to hosts: the host takes each.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
	// RetiredKeys are keys that the operator does not use any more. The host drops them, and those that it took before and are not
	// among AuthorizedKeys any more, once its Node has the hash of one of AuthorizedKeys in annotation pub-key-hash.
	RetiredKeys []string `json:"retiredKeys,omitempty"`
	// SigningKey is the public key (Ed25519, in base64) of what is published for nodes. A host that has this Node follows nothing that
	// was signed with another; without one it follows nothing.
	SigningKey string `json:"signingKey,omitempty"`
	// SecretsVersion is that of the Secrets that belong to this Node; empty when there are none.
	SecretsVersion string `json:"secretsVersion,omitempty"`
}

// Secrets is what a node must have and nobody else may see.
type Secrets struct {
	// Version is the SHA-256 of the content, in hex. It tells nothing of it, since Salt is a part.
	Version string `json:"version,omitempty"`
	// Salt is random, and another one with each change: without it, a short password could be guessed from Version.
	Salt string `json:"salt,omitempty"`
	// Files are files with secrets in them.
	Files []File `json:"files,omitempty"`
	// Environment are variables with secrets in them: services get those they read, the machine gets none.
	Environment map[string]string `json:"environment,omitempty"`
}

// PayloadFile is one file of the payload on the host.
type PayloadFile struct {
	// Path below the version's folder, and below C:\k under its familiar name; with backslashes.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// File is a small file with its content.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	// Secret says that only SYSTEM and Administrators may read it, wherever it is. On says so of all files of Secrets.
	Secret bool `json:"secret,omitempty"`
}

// Service is the declaration of a Windows service: the whole of it, so that applying it twice changes nothing.
type Service struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Command is the full command line. It may contain ${NODE_NAME}, ${NODE_IP} and ${NODE_ADAPTER}.
	Command string `json:"command"`
	// DependsOn are the services that must run before it.
	DependsOn []string `json:"dependsOn,omitempty"`
	// Ready is where the service answers once it works; what depends on it is started then, and not before. It is on the host
	// itself: http://127.0.0.1:<port>/<path>, which answers a GET with status 200, or npipe://./pipe/<name>, on which a
	// container runtime answers the call Version. Empty: the service works as soon as it runs.
	Ready string `json:"ready,omitempty"`
	// Environment are variables of the service's process, besides those of the machine. Values may contain what Command may.
	Environment map[string]string `json:"environment,omitempty"`
	// Reads are the variables of the node's environment that the process gets: when one changes, it starts anew.
	Reads []string `json:"reads,omitempty"`
	// Needs are files that somebody else makes, and without which the process would end at once: it is started when all
	// of them are there, and not before. How they change later is the process' own matter.
	Needs []string `json:"needs,omitempty"`
	// Log is where the process writes.
	Log Log `json:"log,omitzero"`
}

// Log is the file that a service writes.
type Log struct {
	// Path of the file. What is put aside of it is beside it: kubelet.log becomes kubelet-20060102-150405.log.
	Path string `json:"path"`
	// Rotates is true when the process puts a full file aside by itself; kube-log-runner does. Otherwise WICD copies the
	// file and empties it.
	Rotates bool `json:"rotates,omitempty"`
}

// LogLimits bounds every log of a service: the file that is written, and those that were put aside.
type LogLimits struct {
	// Size in bytes at which a file is put aside.
	Size int64 `json:"size"`
	// Age is how long one that was put aside is kept.
	Age metav1.Duration `json:"age"`
	// Count is how many that were put aside are kept.
	Count int `json:"count"`
}

// CNI is a CNI configuration as a Go template over Pod.
type CNI struct {
	Path     string `json:"path"`
	Template string `json:"template"`
	// ServiceCIDR, MoreServiceCIDRs and ClusterDNS are the same for all nodes.
	ServiceCIDR      string   `json:"serviceCIDR"`
	MoreServiceCIDRs []string `json:"moreServiceCIDRs,omitempty"`
	ClusterDNS       string   `json:"clusterDNS"`
}

// Inputs are what Render needs to know of the cluster, the payload and the host.
type Inputs struct {
	// Version is the name of the release, which nodes report.
	Version string
	// Payload is the content for this node, already selected.
	Payload payload.Manifest
	Cluster Cluster
	Config  v1alpha1.WindowsConfigSpec
	// Settings are what concerns all nodes and does not come from Config alone.
	Settings Settings
}

// Cluster is what every node of a cluster must know of it.
type Cluster struct {
	// ID is the UID of namespace kube-system.
	ID string
	// Server is the URL under which hosts reach the API server, and ServerFrom the object and field that say so.
	Server, ServerFrom string
	// CA is the PEM bundle that the API server's certificate is checked with.
	CA string
	// KubeletClientCA is the PEM bundle that clients of the kubelet are checked with.
	KubeletClientCA string
	// ServiceCIDRs are all IPv4 ranges of Services, none of them within another; the cluster's first one comes first.
	ServiceCIDRs []string
	// DNSServers are the IPv4 addresses at which pods reach the cluster's DNS.
	DNSServers []string
	// Domain of the cluster, as cluster.local. DomainAssumed says that nothing in the cluster tells it, so that it is Kubernetes' default.
	Domain        string
	DomainAssumed bool
	// Network is what nodes must know of the pod network.
	Network ClusterNetwork
	// CloudProvider says who initializes nodes.
	CloudProvider platform.Provider
}
