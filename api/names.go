// Package api holds the names that users and other programs use, independent of the version of the kinds: objects,
// labels, annotations, taints, services, conditions, reasons, events and metrics. docs/objects.md is generated from it.
package api

// GroupName is the API group of the kinds and the prefix of the labels and annotations.
const GroupName = "windowsmachineconfig.openshift.io"

// ImageLabelPayload is the label of the operator's image with the list of its programs for hosts (payload.json). Written by make image, read
// by kubectl windows plan --image.
const ImageLabelPayload = GroupName + "/payload"

// Objects in the operator's namespace.
const (
	// DefaultNamespace is the namespace the operator is installed in unless the user chooses another.
	DefaultNamespace = "openshift-windows-machine-config-operator"

	// PrivateKeySecret is the Secret with the SSH private key for all hosts. Written by the user, read by the operator.
	PrivateKeySecret = "cloud-private-key"

	// PrivateKeyKey is the key of Secret cloud-private-key that holds an unencrypted private key in PEM or OpenSSH
	// format. Written by the user, read by the operator.
	PrivateKeyKey = "private-key.pem"

	// InstancesConfigMap is the ConfigMap that lists the hosts users bring. Each key is an IPv4 address or DNS name,
	// each value "username=<user>". Written by the user, read by the operator, which reports errors as events on it.
	InstancesConfigMap = "windows-instances"

	// KnownHostsConfigMap is the ConfigMap with SSH host keys, known in advance, of hosts in windows-instances. Such a
	// host must present its key at first contact. Written by the user, read by the operator, which reports errors as
	// events on it.
	KnownHostsConfigMap = "windows-known-hosts"

	// KnownHostsKey is the key of ConfigMap windows-known-hosts. It holds lines as ssh-keyscan prints them, or as OpenSSH
	// keeps them in known_hosts: "10.1.42.1 ssh-ed25519 AAAA...".
	KnownHostsKey = "known_hosts"

	// TrustedCAConfigMap is the ConfigMap with the CA certificates that all Windows nodes trust. On OpenShift, the
	// operator creates it with label LabelInjectTrustedCA unless it exists, and the cluster fills it; on other clusters,
	// the administrator writes it. Read by the operator.
	TrustedCAConfigMap = "trusted-ca"

	// LabelInjectTrustedCA, with value "true", makes OpenShift's network operator write the cluster's trusted CA
	// certificates into a ConfigMap, key ca-bundle.crt.
	LabelInjectTrustedCA = "config.openshift.io/inject-trusted-cabundle"

	// TrustedCAKey is the key of ConfigMap trusted-ca that holds the certificates in PEM format.
	TrustedCAKey = "ca-bundle.crt"

	// PullSecret is the Secret (type kubernetes.io/dockerconfigjson) with the credentials nodes use to pull images. On
	// OpenShift it is the cluster's own, in namespace openshift-config; on other clusters the administrator creates one
	// in the operator's namespace. Read by the operator.
	PullSecret = "pull-secret"

	// ServicesConfigMapPrefix is the prefix of the name of the immutable ConfigMap windows-services-<version>. It
	// declares what every node of that version must have: services, files, environment, certificates. Written and
	// signed by the operator, which creates it again when it is deleted or changed. Read by WICD, which applies only
	// what carries the operator's signature.
	ServicesConfigMapPrefix = "windows-services-"

	// NodeSecrets is the Secret with the settings that only nodes may read: credentials of registries and proxies.
	// Written by the operator, read by WICD.
	NodeSecrets = "windows-node-secrets"

	// NodeSecretsKey is the key of Secret windows-node-secrets that holds all of its content, as JSON.
	NodeSecretsKey = "secrets.json"

	// SigningKeySecret is the Secret with the key that signs the ConfigMaps windows-services-<version>. Written by the
	// operator when it does not exist, and read by the operator only. Deleting it creates a new key: the operator then
	// joins all nodes again, because they reject everything signed with a key they do not know.
	SigningKeySecret = "windows-settings-signing-key"

	// SigningKeyKey is the key of Secret windows-settings-signing-key that holds an Ed25519 private key in PEM format
	// (PKCS #8).
	SigningKeyKey = "private-key.pem"

	// WICDRole is the Role of every WICD in the operator's namespace. It allows reading, each by name, the ConfigMaps
	// windows-services-<version> in use and Secret windows-node-secrets. Written by the operator.
	WICDRole = "windows-instance-config-daemon"

	// BootstrapServiceAccount is the identity of the short-lived token a host joins with. It may create certificate
	// requests and nothing else. It is installed with the operator, which creates its tokens.
	BootstrapServiceAccount = "windows-node-bootstrapper"

	// WindowsConfigName is the only name a WindowsConfig can have.
	WindowsConfigName = "cluster"
)

// ManagedBy is the value of LabelManagedBy on objects of the operator, and the name under which it applies objects.
const ManagedBy = "windows-machine-config-operator"

// Finalizers.
const (
	// Finalizer keeps a WindowsInstance until its host has left the cluster. Written and removed by the operator.
	Finalizer = GroupName + "/host"
)

// Labels.
const (
	// LabelSource is the source of a WindowsInstance: ConfigMap, Machine or ClusterAPI. The source is User when the label
	// is absent or has that value. Written by the operator on the instances that it creates; it deletes only those.
	LabelSource = GroupName + "/source"

	// LabelMachineOS, with value Windows, marks Machines of both APIs that become Windows nodes. Written by the user in
	// the MachineSet.
	LabelMachineOS = "machine.openshift.io/os-id"

	// LabelIgnore, with value true on a Machine, makes the operator ignore the Machine. Written by the user.
	LabelIgnore = GroupName + "/ignore"

	// LabelBYOH marks the Node of a host that was added by ConfigMap or by the user (bring your own host). Written by
	// the operator, with value "true".
	LabelBYOH = GroupName + "/byoh"

	// LabelWorker gives the Node the role worker. Written by the operator, with an empty value.
	LabelWorker = "node-role.kubernetes.io/worker"

	// LabelRehearsal on a Deployment and its pods means that kubectl windows rehearse printed it. The value is the name of the
	// Deployment that it is a copy of. Nothing reads it.
	LabelRehearsal = GroupName + "/rehearsal-of"

	// LabelRunsPrefix is the prefix of the labels that name the images a Node can run: runs.windows2019, runs.windows2022
	// and runs.windows2025, with value true. A node with Windows Server 2025 has the last two. Written by the operator.
	LabelRunsPrefix = GroupName + "/runs."

	// LabelGMSA on a Node means that its condition WindowsGMSACapable is True, so that pods with a group Managed Service
	// Account can select it. Written by the operator, with value true.
	LabelGMSA = GroupName + "/gmsa"

	// LabelHyperV on a Node means that its condition WindowsHyperVCapable is True, so that pods with Hyper-V isolation can
	// select it, as their RuntimeClasses do. Written by the operator, with value true.
	LabelHyperV = GroupName + "/hyperv"

	// LabelImages on a RuntimeClass names the images that it is for, as in Microsoft's tags: ltsc2019, ltsc2022
	// or ltsc2025. Where deploy/workloads is installed, pods with such images that name no class get this one. Written by
	// the operator.
	LabelImages = GroupName + "/images"

	// LabelDefaultClass marks the RuntimeClass of pods for Windows that name no class and whose image tags do not identify
	// a version of Windows. Written by the operator, with value true, on the class that spec.pods.defaultRuntimeClass of
	// WindowsConfig names.
	LabelDefaultClass = GroupName + "/default-class"

	// LabelPodRules on a Namespace specifies what happens to pods for Windows with fields that Windows nodes do not support:
	// warn (also without the label), deny or off. Written by the user, read by the admission policies of pod-rules.yaml.
	LabelPodRules = GroupName + "/pod-rules"

	// LabelAssignRuntimeClass, with value false on a Namespace or a pod, prevents pods for Windows from getting a
	// RuntimeClass that they do not name. Written by the user, read by the admission policy of deploy/workloads.
	LabelAssignRuntimeClass = GroupName + "/assign-runtime-class"

	// LabelManagedBy is a label of Kubernetes. The operator changes and deletes only RuntimeClasses on which it has value
	// windows-machine-config-operator. Written by the operator.
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// LabelOSID marks Windows nodes, with value Windows. Written by the kubelet when it registers.
	LabelOSID = "node.openshift.io/os_id"
)

// Values of LabelSource.
const (
	// SourceConfigMap marks an instance created from an entry of ConfigMap windows-instances.
	SourceConfigMap = "ConfigMap"
	// SourceMachine marks an instance created from a Machine of OpenShift's Machine API.
	SourceMachine = "Machine"
	// SourceClusterAPI marks an instance created from a Machine of Cluster API.
	SourceClusterAPI = "ClusterAPI"
	// SourceUser marks an instance created by the user. An instance without the label also has this source.
	SourceUser = "User"
)

// UserDataSecret is the Secret, in the namespace of the Machines, with the script that a new Machine runs at its first
// start. Written by the operator; the user names it in MachineSets.
const UserDataSecret = "windows-user-data"

// Handlers of RuntimeClasses for Windows nodes: the names of containerd's runtimes. Users name them in classes of their own.
const (
	// HandlerProcessIsolation is the default: containers share the kernel of the host.
	HandlerProcessIsolation = "runhcs-wcow-process"
	// HandlerHyperVIsolation gives each pod its own virtual machine. Nodes have it if runtimeClasses.hyperV of
	// WindowsConfig is set.
	HandlerHyperVIsolation = "runhcs-wcow-hypervisor"
)

// Annotations of Nodes, ConfigMaps and WindowsInstances.
const (
	// AnnotationVersion is the version the node is fully configured with. Written by WICD as its last step; read by the
	// operator and users.
	AnnotationVersion = GroupName + "/version"

	// AnnotationSettings identifies the content of ConfigMap windows-services-<version> that the node has applied. When
	// all nodes have the same value as the ConfigMap, a change has reached every node. Written by WICD on its Node and
	// by the operator on the ConfigMap.
	AnnotationSettings = GroupName + "/settings"

	// AnnotationDesiredVersion is the version the node should have. Written by the operator when the node may move to it;
	// a Node without it gets the version that it reports. Read by users and by WICD, which moves to another version only
	// if annotation version-order proves that the operator ordered it, and once the content of that version has been sent.
	AnnotationDesiredVersion = GroupName + "/desired-version"

	// AnnotationVersionOrder is the operator's signature of the version in desired-version, for this Node alone:
	// <serial>.<signature>. Written by the operator together with desired-version. Read by WICD, which changes its version
	// for no other reason, and carries out each order once.
	AnnotationVersionOrder = GroupName + "/version-order"

	// AnnotationBootID identifies the boot of Windows for which condition WindowsRebootRequired was reported. If
	// nodeInfo.bootID in the status of the Node differs, the condition describes an earlier boot. Written by WICD after it
	// has checked for a pending restart, in at most 64 characters; read by the operator.
	AnnotationBootID = GroupName + "/boot-id"

	// AnnotationReboot on a Node requests that the operator drain the node and restart its host, within the budget.
	// Written by the user with any value, removed by the operator when the restart is done.
	AnnotationReboot = GroupName + "/reboot"

	// AnnotationCordoned marks a Node that the operator cordoned; the value is the action for which it did. The operator
	// uncordons only such nodes. Written and removed by the operator.
	AnnotationCordoned = GroupName + "/cordoned"

	// AnnotationRelease on a WindowsInstance that is being deleted removes the instance although its host cannot be
	// reached. Everything that is installed on the host remains. Written by the user, with value "true".
	AnnotationRelease = GroupName + "/release"

	// AnnotationRetry on a WindowsInstance requests that the operator retry an action that failed on its host. Written
	// by the user with value "true", removed by the operator.
	AnnotationRetry = GroupName + "/retry"

	// AnnotationCollect on a WindowsInstance requests that its host write an archive of its state for support:
	// C:\var\log\collect\<value>.zip, which the kubelet serves as /logs/collect/<value>.zip for an hour. The value is 1 to
	// 40 lower-case letters, digits and hyphens. Written by the user (kubectl windows collect); when the user removes it,
	// the archive is removed. The operator sets the same annotation on the Node, where WICD reads it.
	AnnotationCollect = GroupName + "/collect"

	// AnnotationCollected on a Node is the progress of the collection that annotation collect requests, as JSON: id, state
	// (Collecting, Done, Failed, Expired), time, and bytes and sha256 of the archive or a message. Written and removed by
	// WICD, read by users.
	AnnotationCollected = GroupName + "/collected"

	// AnnotationServices on a Node has the state of each service that WICD supervises, in the order in which they start, as
	// JSON: name, state (Running, Stopped, Waiting, CrashLoop, NotReady), and what a waiting service waits for. Written by
	// WICD, read by users.
	AnnotationServices = GroupName + "/services"

	// AnnotationWindowsUpdates on a Node is what the Windows Update Agent of its host knows, as JSON of at most 1024 bytes:
	// source, searched, newest and kb (the newest installed update), total and pending by class, and what blocks updates.
	// Written and removed by WICD, read by users.
	AnnotationWindowsUpdates = GroupName + "/windows-updates"

	// AnnotationSearchUpdates on a Node requests that Windows be asked about updates now, with a search at its server if
	// spec.windowsUpdates.policy is Install. The value is the time of the request in RFC 3339; it has no effect once Windows
	// was asked after it. Written by the user (kubectl windows updates --search), read by WICD.
	AnnotationSearchUpdates = GroupName + "/search-updates"

	// AnnotationAcceptHostname on a WindowsInstance is the one new name under which its host may join from now on. A
	// host that has received a token for one name is rejected under any other name. Written by the user, who drains and
	// renames the host first.
	AnnotationAcceptHostname = GroupName + "/accept-hostname"

	// AnnotationMachine on a WindowsInstance names the Machine it was created from, as namespace/name. Written by the
	// operator.
	AnnotationMachine = GroupName + "/machine"

	// AnnotationReplaces on a MachineSet is the MachineSet whose Machines it replaces and how many Machines both have in the
	// end, such as windows-2022/3. Written by kubectl windows replace.
	AnnotationReplaces = GroupName + "/replaces"

	// AnnotationPubKeyHash is the SHA-256 hash, in hex, of the authorized_keys line of the SSH key the operator last
	// logged in with. Written by the operator.
	AnnotationPubKeyHash = GroupName + "/pub-key-hash"

	// AnnotationSSHHostKey is the host's SSH key in wire format, base64 encoded. Written by the operator, which
	// verifies it at every connection.
	AnnotationSSHHostKey = GroupName + "/ssh-host-key"

	// AnnotationSSHHostKeyType is the algorithm of the key in ssh-host-key, for example ssh-ed25519. Written by the
	// operator.
	AnnotationSSHHostKeyType = GroupName + "/ssh-host-key-type"
)

// The taint of Windows nodes: os=Windows:NoSchedule. Written by the kubelet when it registers, and by the operator when
// spec.taint of WindowsConfig changes.
const (
	// TaintKey is the key of the taint on every Windows node.
	TaintKey = "os"
	// TaintValue is the value of the taint on every Windows node, unless spec.taint of WindowsConfig specifies another;
	// its effect is NoSchedule.
	TaintValue = "Windows"
	// TaintUninitialized is the key of the taint with which the kubelet registers a node of a cloud, and which the cloud's
	// controller removes when it has initialized the node (k8s.io/cloud-provider/api). The operator only reads it.
	TaintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	// TaintImages is the key of the taint of a node that has joined and pulls the images of spec.images.prepull, with effect
	// NoSchedule. The operator removes it. By its prefix, the Cluster Autoscaler recognizes it as a taint that will be removed
	// (cluster-autoscaler/utils/taints).
	TaintImages = "startup-taint.cluster-autoscaler.kubernetes.io/windows-images"
	// TaintValueLowerCase is the other value, which the Kubernetes documentation uses.
	TaintValueLowerCase = "windows"
)

// Identities in certificates.
const (
	// WICDUserPrefix is the prefix of the common name in WICD's certificate; the node's name follows.
	WICDUserPrefix = "system:wicd-node:"
	// WICDGroup is the organization in WICD's certificate.
	WICDGroup = "system:wicd-nodes"
	// NodeManagerUserPrefix is the prefix of the common name in the certificate of the cloud-node-manager of a node on
	// Azure; the node's name follows. WICD requests it.
	NodeManagerUserPrefix = "system:windows-cloud-node-manager:"
	// NodeManagerGroup is the organization in the certificate of the cloud-node-manager.
	NodeManagerGroup = "system:windows-cloud-node-managers"
)

// Names on the host.
const (
	// WICDService is the Windows service of WICD, the daemon on the host.
	WICDService = "windows-instance-config-daemon"
	// WICDUpdateService is the Windows service that exists while another version of WICD takes over. It rolls back when
	// that version does not work.
	WICDUpdateService = WICDService + "-update"
	// ServiceDescription is the prefix of a service's description; the service's name follows. A service without it
	// does not belong to the operator.
	ServiceDescription = "OpenShift managed "
)
