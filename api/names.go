// Package api holds the names that users and other programs can touch, whatever the version of our kinds: objects,
// labels, annotations, taints, services, conditions, reasons, events and metrics. docs/objects.md is generated from it.
package api

// GroupName is the API group of our kinds and the prefix of our labels and annotations.
const GroupName = "windowsmachineconfig.openshift.io"

// Objects in the operator's namespace.
const (
	// DefaultNamespace is where the operator is installed unless the user chooses another.
	DefaultNamespace = "openshift-windows-machine-config-operator"

	// PrivateKeySecret is the Secret with the SSH key for all hosts. Written by the user, read by the operator.
	PrivateKeySecret = "cloud-private-key"

	// PrivateKeyKey is the key of Secret cloud-private-key that holds an unencrypted private key in PEM or
	// OpenSSH form. Written by the user, read by the operator.
	PrivateKeyKey = "private-key.pem"

	// InstancesConfigMap lists hosts that users bring: each key is an IPv4 address or DNS name, each value
	// "username=<user>". Written by the user, read by the operator; faults come as events on it.
	InstancesConfigMap = "windows-instances"

	// KnownHostsConfigMap holds SSH host keys of the hosts in windows-instances that are known in advance: such a host has to show its
	// key at first contact already. Written by the user, read by the operator; faults come as events on it.
	KnownHostsConfigMap = "windows-known-hosts"

	// KnownHostsKey is the key of ConfigMap windows-known-hosts that holds lines as ssh-keyscan prints them, each beginning with a key of
	// windows-instances: "10.1.42.1 ssh-ed25519 AAAA...".
	KnownHostsKey = "known_hosts"

	// TrustedCAConfigMap holds certificates that all Windows nodes trust. Written by OpenShift, which fills ConfigMaps with
	// the label config.openshift.io/inject-trusted-cabundle=true; elsewhere by the administrator. Read by the operator.
	TrustedCAConfigMap = "trusted-ca"

	// TrustedCAKey is the key of ConfigMap trusted-ca that holds the certificates, as PEM.
	TrustedCAKey = "ca-bundle.crt"

	// PullSecret is the Secret (type kubernetes.io/dockerconfigjson) with the credentials that nodes pull images with. On
	// OpenShift it is the cluster's own, in namespace openshift-config; elsewhere the administrator writes one in the
	// operator's namespace. Read by the operator.
	PullSecret = "pull-secret"

	// ServicesConfigMapPrefix precedes a version in the name of the immutable ConfigMap that says what every node of that
	// version must have: services, files, environment, certificates. Written and signed by the operator, which makes it again
	// when it is deleted or altered; read by WICD, which follows what has the operator's signature, and nothing else.
	ServicesConfigMapPrefix = "windows-services-"

	// NodeSecrets is the Secret with what nodes must have and nobody else may see: credentials of registries and proxies.
	// Written by the operator, read by WICD.
	NodeSecrets = "windows-node-secrets"

	// NodeSecretsKey is the key of Secret windows-node-secrets that holds all of it, as JSON.
	NodeSecretsKey = "secrets.json"

	// SigningKeySecret is the Secret with the key that the operator signs ConfigMaps windows-services-<version> with. Written by
	// the operator when it is not there, and read by it alone. Deleting it makes another key: the operator then joins all nodes
	// again, since they follow nothing that is signed with a key they do not know.
	SigningKeySecret = "windows-settings-signing-key"

	// SigningKeyKey is the key of Secret windows-settings-signing-key that holds an Ed25519 private key in PEM form (PKCS #8).
	SigningKeyKey = "private-key.pem"

	// WICDRole is the Role of all WICDs in the operator's namespace: reading the ConfigMaps windows-services-<version> that
	// nodes have, and Secret windows-node-secrets, each by name. Written by the operator.
	WICDRole = "windows-instance-config-daemon"

	// BootstrapServiceAccount is the identity of the short-lived token a host joins with. It may create
	// certificate requests and nothing else. Installed with the operator, its tokens are made by the operator.
	BootstrapServiceAccount = "windows-node-bootstrapper"

	// WindowsConfigName is the only name a WindowsConfig can have.
	WindowsConfigName = "cluster"
)

// Finalizer holds a WindowsInstance until its host has left the cluster. Written and removed by the operator.
const Finalizer = GroupName + "/host"

// Labels.
const (
	// LabelSource says where a WindowsInstance comes from: ConfigMap, or User where the label is absent or
	// says so. Written by the operator on instances it made; only those are deleted by it.
	LabelSource = GroupName + "/source"

	// LabelMachineOS is on Machines of both APIs that are to become Windows nodes, with value Windows. Written by the user in the
	// MachineSet.
	LabelMachineOS = "machine.openshift.io/os-id"

	// LabelIgnore, with value true, on a Machine keeps the operator away from it. Written by the user.
	LabelIgnore = GroupName + "/ignore"

	// LabelBYOH marks the Node of a host that was announced by ConfigMap or by the user. Written by the operator; value "true".
	LabelBYOH = GroupName + "/byoh"

	// LabelWorker gives the Node the role worker. Written by the operator; empty value.
	LabelWorker = "node-role.kubernetes.io/worker"

	// LabelOSID marks Windows nodes, value Windows. Written by the kubelet when it registers.
	LabelOSID = "node.openshift.io/os_id"
)

// Values of LabelSource.
const (
	// SourceConfigMap marks an instance made from an entry of ConfigMap windows-instances.
	SourceConfigMap = "ConfigMap"
	// SourceMachine marks an instance made from a Machine of OpenShift's Machine API.
	SourceMachine = "Machine"
	// SourceClusterAPI marks an instance made from a Machine of Cluster API.
	SourceClusterAPI = "ClusterAPI"
	// SourceUser is meant where an instance has no source label: the user wrote it.
	SourceUser = "User"
)

// UserDataSecret is the Secret, in the namespace of the Machines, with the script that a new Machine runs at its first start.
// Written by the operator; the user names it in MachineSets.
const UserDataSecret = "windows-user-data"

// Annotations of Nodes, one of ConfigMaps, and those of WindowsInstances.
const (
	// AnnotationVersion is the version the node is fully configured with. Written by WICD, last of all; read by
	// the operator and users.
	AnnotationVersion = GroupName + "/version"

	// AnnotationSettings identifies the content of ConfigMap windows-services-<version> that the node has come to: when all
	// nodes have the same as the ConfigMap's own annotation, a change has arrived everywhere. Written by WICD on its Node
	// and by the operator on the ConfigMap.
	AnnotationSettings = GroupName + "/settings"

	// AnnotationDesiredVersion is the version the node shall have. Written by the operator when it is the node's turn, read by
	// users and by WICD, which takes the host there once its content has been sent.
	AnnotationDesiredVersion = GroupName + "/desired-version"

	// AnnotationReboot on a Node asks the operator to drain the node and restart its host, within the budget. Written by the user
	// with any value, removed by the operator when it is done.
	AnnotationReboot = GroupName + "/reboot"

	// AnnotationCordoned marks a Node that the operator cordoned, with the action it did so for. Only such a node is uncordoned by
	// it. Written and removed by the operator.
	AnnotationCordoned = GroupName + "/cordoned"

	// AnnotationRelease on a WindowsInstance that is being deleted lets it go although its host cannot be reached: what is on the
	// host stays. Written by the user, value "true".
	AnnotationRelease = GroupName + "/release"

	// AnnotationRetry on a WindowsInstance asks the operator to try again what failed on its host. Written by the user, value "true",
	// removed by the operator.
	AnnotationRetry = GroupName + "/retry"

	// AnnotationAcceptHostname on a WindowsInstance is the one other name under which its host may join from now on. A host that was
	// handed a token for one name is refused under any other. Written by the user, who drains and renames the host first.
	AnnotationAcceptHostname = GroupName + "/accept-hostname"

	// AnnotationMachine on a WindowsInstance names the Machine that it was made from, as namespace/name. Written by the operator.
	AnnotationMachine = GroupName + "/machine"

	// AnnotationPubKeyHash is the SHA-256, in hex, of the authorized-keys line of the key the host was reached
	// with. Written by the operator.
	AnnotationPubKeyHash = GroupName + "/pub-key-hash"

	// AnnotationSSHHostKey is the host's SSH key, wire form in base64. Written by the operator; asked for at
	// every connection.
	AnnotationSSHHostKey = GroupName + "/ssh-host-key"

	// AnnotationSSHHostKeyType is the algorithm of the key in ssh-host-key, for example ssh-ed25519. Written by the operator.
	AnnotationSSHHostKeyType = GroupName + "/ssh-host-key-type"
)

// The taint of Windows nodes: os=Windows:NoSchedule. Written by the kubelet when it registers.
const (
	// TaintKey is the key of the taint of every Windows node.
	TaintKey = "os"
	// TaintValue is the value of the taint of every Windows node; its effect is NoSchedule.
	TaintValue = "Windows"
)

// Identities in certificates.
const (
	// WICDUserPrefix precedes the node's name in the common name of WICD's certificate.
	WICDUserPrefix = "system:wicd-node:"
	// WICDGroup is the organisation in WICD's certificate.
	WICDGroup = "system:wicd-nodes"
)

// Names on the host.
const (
	// WICDService is the Windows service of our daemon.
	WICDService = "windows-instance-config-daemon"
	// WICDUpdateService is the Windows service that is there while the daemon of another version takes over, and goes back if
	// that one does not work.
	WICDUpdateService = WICDService + "-update"
	// ServiceDescription precedes the name of a service in its description; a service without it is not ours.
	ServiceDescription = "OpenShift managed "
)
