package desired

import (
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/supportbundle"
)

// Folders and files on the host. Those below C:\k and C:\var\log are the original operator's.
const (
	// Root holds everything of ours; only SYSTEM and Administrators may read it.
	Root = `C:\k`
	// Store holds each content under its hash.
	Store = `C:\k\store`
	// Versions holds a folder for each payload.
	Versions = `C:\k\versions`
	// State holds the journal and what the last join asked for.
	State = `C:\k\state`
	// Metrics holds what WICD has to say to a Prometheus: files that windows_exporter adds to its own metrics.
	Metrics = `C:\k\metrics`
	// Logs holds a folder for each service.
	Logs = `C:\var\log`
	// WICDLog is the log of WICD. WICDLogByLevel followed by INFO, WARNING or ERROR are the names by which OpenShift's must-gather takes it
	// (openshift/must-gather, collection-scripts/gather_windows_node_logs): they are the original operator's.
	WICDLog        = Logs + `\wicd\wicd.log`
	WICDLogByLevel = Logs + `\wicd\windows-instance-config-daemon.exe.`
	// Collections holds archives of the node's state, which WICD writes when it is asked to. The kubelet serves them with the logs.
	Collections = Logs + `\` + supportbundle.Folder

	// ContainerdRoot holds containerd's images and what it must not forget, ContainerdState what it may.
	ContainerdRoot  = ContainerdData + `\root`
	ContainerdState = ContainerdData + `\state`
	// ContainerdData holds both.
	ContainerdData = `C:\ProgramData\containerd`
	// KubeletData is where the kubelet keeps pods' volumes and its own state.
	KubeletData = `C:\var\lib\kubelet`
	// CNIData holds what network plugins must not forget: addresses of pods, and where their networks are.
	CNIData = `C:\var\lib\cni`

	// Registries holds a folder for each registry for which containerd asks WICD.
	Registries = `C:\k\containerd\registries`
	// RegistryAddress is where WICD answers containerd for registries that have mirrors, on loopback. It is below the ports
	// that Windows gives away by itself, and outside of those of Services. RegistryCA is the certificate of that address,
	// RegistryClient that of containerd with its key.
	RegistryAddress = "127.0.0.1:10280"
	RegistryPort    = 10280
	RegistryCA      = `C:\k\containerd\wicd-registry.crt`
	RegistryClient  = `C:\k\containerd\wicd-client.pem`
	// CNIFolder holds the configuration of the pod network.
	CNIFolder = `C:\k\cni\config`

	// BootstrapKubeconfig is the kubelet's and WICD's way into the cluster until they have certificates. It
	// holds a token and is removed when both have.
	BootstrapKubeconfig = `C:\k\bootstrap-kubeconfig`
	// KubeletKubeconfig is written by the kubelet once it has its certificate.
	KubeletKubeconfig = `C:\k\kubeconfig`
	// KubeletCertificates holds the kubelet's certificates and keys.
	KubeletCertificates = KubeletData + `\pki`
	// KubeletServing is the kubelet's serving certificate with its key, both in one file that is replaced whole when they
	// are renewed; its name is that of client-go's certificate store.
	KubeletServing = KubeletCertificates + `\kubelet-server-current.pem`
	// WICDCertificates holds WICD's own certificate and key.
	WICDCertificates = `C:\k\wicd-certs`
	// WICDIdentity is WICD's certificate with its key.
	WICDIdentity = WICDCertificates + `\wicd-client-current.pem`

	// NodeManagerIdentity is the certificate of the cloud-node-manager with its key, which WICD requests.
	NodeManagerIdentity = WICDCertificates + `\cloud-node-manager-client-current.pem`

	kubeletConfig         = `C:\k\kubelet.conf`
	kubeletClientCA       = `C:\k\kubelet-ca.crt`
	containerdConfig      = `C:\k\containerd\containerd_conf.toml`
	cniConfig             = CNIFolder + `\cni.conf`
	staticPods            = `C:\k\etc\kubernetes\manifests`
	volumePlugins         = `C:\k\volume-plugins`
	exporterConfig        = `C:\k\tls\windows-exporter-webconfig.yaml`
	wicdKubeconfig        = `C:\k\wicd-kubeconfig`
	nodeManagerKubeconfig = `C:\k\cloud-node-manager-kubeconfig`
	// The original's name for it.
	credentialProviderConfig = `C:\k\credential-provider-config.yaml`
)

// ShortDigest is how a digest is shown to people and named in folders: its first twelve digits.
func ShortDigest(digest string) string { return digest[:min(12, len(digest))] }

// VersionFolder is the folder of a payload.
func VersionFolder(digest string) string { return Versions + `\` + ShortDigest(digest) }

// WindowsPath turns the forward slashes of a payload's path into backslashes.
func WindowsPath(path string) string { return strings.ReplaceAll(path, "/", `\`) }

// ServiceDescription is the description that marks a service as ours.
func ServiceDescription(name string) string { return api.ServiceDescription + name }

// CNIResults is where libcni, which containerd calls network plugins with, remembers the network of each pod
// (containernetworking/cni, libcni/api.go).
const CNIResults = CNIData + `\results`
