package desired

import (
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/supportbundle"
)

// Folders and files on the host. Those below C:\k and C:\var\log are the original operator's.
const (
	// Root holds all files of the operator; only SYSTEM and Administrators may read it.
	Root = `C:\k`
	// Store holds each content under its hash.
	Store = `C:\k\store`
	// Versions holds a folder for each payload.
	Versions = `C:\k\versions`
	// State holds WICD's state, such as the journal and the record.
	State = `C:\k\state`
	// Metrics holds WICD's metrics for Prometheus: files that windows_exporter adds to its own metrics.
	Metrics = `C:\k\metrics`
	// Logs holds a folder for each service.
	Logs = `C:\var\log`
	// WICDLog is the log of WICD. WICDLogByLevel followed by INFO, WARNING or ERROR are the original operator's names, by which OpenShift's
	// must-gather collects it (openshift/must-gather, collection-scripts/gather_windows_node_logs).
	WICDLog = Logs + `\wicd\wicd.log`
	// WindowsUpdatesFile is WICD's last report about Windows updates, as JSON.
	WindowsUpdatesFile = Logs + `\wicd\windows-updates.json`
	WICDLogByLevel     = Logs + `\wicd\windows-instance-config-daemon.exe.`
	// Collections holds archives of the node's state, which WICD writes on request. The kubelet serves them with the logs.
	Collections = Logs + `\` + supportbundle.Folder

	// ContainerdRoot holds containerd's images and persistent data, ContainerdState its volatile data.
	ContainerdRoot  = ContainerdData + `\root`
	ContainerdState = ContainerdData + `\state`
	// ContainerdData holds both.
	ContainerdData = `C:\ProgramData\containerd`
	// KubeletData holds the volumes of pods and the kubelet's state.
	KubeletData = `C:\var\lib\kubelet`
	// CNIData holds the persistent data of network plugins: addresses of pods, and their networks.
	CNIData = `C:\var\lib\cni`

	// Registries holds a folder for each registry that containerd reaches through WICD.
	Registries = `C:\k\containerd\registries`
	// RegistryAddress is where WICD serves registries with mirrors to containerd, on loopback. The port is below the dynamic ports of
	// Windows and outside of the ports of Services. RegistryCA is the certificate of that address, RegistryClient the certificate of
	// containerd with its key.
	RegistryAddress = "127.0.0.1:10280"
	RegistryPort    = 10280
	RegistryCA      = `C:\k\containerd\wicd-registry.crt`
	RegistryClient  = `C:\k\containerd\wicd-client.pem`
	// CNIFolder holds the configuration of the pod network.
	CNIFolder = `C:\k\cni\config`

	// BootstrapKubeconfig is the kubeconfig of the kubelet and WICD until they have certificates. It holds a token and is removed when both
	// have them.
	BootstrapKubeconfig = `C:\k\bootstrap-kubeconfig`
	// KubeletKubeconfig is written by the kubelet once it has its certificate.
	KubeletKubeconfig = `C:\k\kubeconfig`
	// KubeletCertificates holds the kubelet's certificates and keys.
	KubeletCertificates = KubeletData + `\pki`
	// KubeletServing is the kubelet's serving certificate with its key, in one file that is replaced as a whole at renewal; the name is
	// that of client-go's certificate store.
	KubeletServing = KubeletCertificates + `\kubelet-server-current.pem`
	// WICDCertificates holds WICD's own certificate and key.
	WICDCertificates = `C:\k\wicd-certs`
	// WICDIdentity is WICD's client certificate with its key.
	WICDIdentity = WICDCertificates + `\wicd-client-current.pem`

	// NodeManagerIdentity is the client certificate of the cloud-node-manager with its key, which WICD requests.
	NodeManagerIdentity = WICDCertificates + `\cloud-node-manager-client-current.pem`

	kubeletConfig         = `C:\k\kubelet.conf`
	kubeletClientCA       = `C:\k\kubelet-ca.crt`
	containerdConfig      = `C:\k\containerd\containerd_conf.toml`
	cniConfig             = CNIFolder + `\cni.conf`
	cniList               = CNIFolder + `\cni.conflist`
	staticPods            = `C:\k\etc\kubernetes\manifests`
	volumePlugins         = `C:\k\volume-plugins`
	exporterConfig        = `C:\k\tls\windows-exporter-webconfig.yaml`
	wicdKubeconfig        = `C:\k\wicd-kubeconfig`
	nodeManagerKubeconfig = `C:\k\cloud-node-manager-kubeconfig`
	// The original's name.
	credentialProviderConfig = `C:\k\credential-provider-config.yaml`
)

// ShortDigest returns the first twelve digits of a digest, for messages and names of folders.
func ShortDigest(digest string) string { return digest[:min(12, len(digest))] }

// VersionFolder returns the folder of a payload.
func VersionFolder(digest string) string { return Versions + `\` + ShortDigest(digest) }

// WindowsPath replaces the slashes of a payload's path with backslashes.
func WindowsPath(path string) string { return strings.ReplaceAll(path, "/", `\`) }

// ServiceDescription returns the description that marks a service as managed by the operator.
func ServiceDescription(name string) string { return api.ServiceDescription + name }

// CNIResults is where libcni, through which containerd calls network plugins, stores the network of each pod (containernetworking/cni,
// libcni/api.go).
const CNIResults = CNIData + `\results`
