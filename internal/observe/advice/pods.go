package advice

import (
	"maps"

	"github.com/windows-machine-config/wmco/api"
)

// Pages about pods.
const (
	pullsPage = "troubleshooting#images-are-not-pulled"
	startPage = "workloads#why-a-pod-does-not-start"
)

// pods are the reasons of pods that do not start and of waiting containers (k8s.io/kubernetes, pkg/kubelet/images/types.go and
// pkg/kubelet/kuberuntime).
func pods() Table {
	const accounts = "workloads#group-managed-service-accounts"
	all := Table{
		api.EventNoNodeForBuild:      {Error, "Add a Windows node of that build, or use an image and a RuntimeClass for a build that the cluster has.", startPage},
		api.EventNoNodeFits:          {Error, "Correct the node selector or the affinity of the pod, or label a node with: kubectl label node <node> <key>=<value>.", startPage},
		api.EventNodesUnavailable:    {Warning, "Wait until a node is Ready and not cordoned; kubectl windows status shows what delays it.", startPage},
		api.EventTaintNotTolerated:   {Error, "Use a RuntimeClass such as windows2022, which adds the toleration of the taint of Windows nodes, or tolerate the taint in the message.", startPage},
		api.EventMemoryLimitMissing:  {Error, "Set resources.limits.memory of the containers, and free memory on the nodes.", startPage},
		api.EventRuntimeClassMissing: {Error, "Create the RuntimeClass again, or use another one; kubectl get runtimeclass lists them.", startPage},
		api.EventNodeNotInDomain: {Error, "Join a Windows host to the domain, or register a plugin of Container Credential Guard on it, and have the pod select " +
			api.LabelGMSA + "=true.", accounts},
		api.EventNoNodeWithHyperV: {Error, "Follow the message of condition WindowsHyperVCapable of the Nodes, or use a RuntimeClass without Hyper-V isolation.",
			"workloads#hyper-v-isolation"},
		api.EventPodTooLarge:           {Warning, "See the scheduler's message with kubectl describe pod <pod>; give the pod fewer selectors, tolerations and affinity terms.", startPage},
		api.EventCredentialSpecMissing: {Error, "Install the webhook of windows-gmsa with its CustomResourceDefinition, and create the pod again.", accounts},
		"CreateContainerError":         {Warning, "See the message; on the host, see C:\\var\\log\\containerd.", pullsPage},
		"CreateContainerConfigError":   {Error, "Create the ConfigMap or Secret that the message names.", pullsPage},
		"RunContainerError":            {Warning, "See the message; on the host, see C:\\var\\log\\containerd.", pullsPage},
		"CrashLoopBackOff":             {Warning, "See the container's log: kubectl logs --previous.", pullsPage},
		"ContainerCreating":            {Info, "Wait; the pod's events say what it waits for.", pullsPage},
	}
	maps.Copy(all, pulls())
	return all
}

// pulls are the reasons why images are not pulled.
func pulls() Table {
	return Table{
		api.EventImageForAnotherBuild: {Error, "Use an image that is built for the node's Windows build (for example tag ltsc2022 for Windows Server 2022), or select nodes of the " +
			"image's build with label node.kubernetes.io/windows-build.", pullsPage},
		api.EventMirrorUnavailable:   {Error, "Check whether the mirrors in the message answer and have the image.", pullsPage},
		api.EventRegistryDenied:      {Error, "Add an entry for the registry to the pull secret of the nodes, or imagePullSecrets to the pod.", pullsPage},
		api.EventRegistryUnreachable: {Error, "Check whether the node reaches the registry: DNS, proxy and firewalls.", pullsPage},
		api.EventProxyUnreachable:    {Error, "Check whether the proxy answers the node, and spec.proxy of WindowsConfig (on OpenShift, Proxy cluster).", "settings#proxy"},
		api.EventProxyDenied: {Error, "Write the user and the password of the proxy into its URL in spec.proxy of WindowsConfig (on OpenShift, Proxy cluster), or let the proxy allow " +
			"the registry in the message.", "settings#proxy"},
		api.EventRegistryBlocked: {Error, "Mirror the image, or allow its registry in the object and field of the message.", "settings#registries-and-mirrors"},
		api.EventRegistryUntrusted: {Error, "Add the CA certificate of the registry to ConfigMap trusted-ca in the operator's namespace (on OpenShift, to the trustedCA of Proxy cluster or " +
			"additionalTrustedCA of Image cluster).", "settings#registries-and-mirrors"},
		api.EventRegistryCertificateInvalid: {Error, "Compare the dates and names in the message with the clock of the node and the name of the registry; correct the clock " +
			"(w32tm /resync), or give the registry a matching certificate.", pullsPage},
		api.EventRegistryWithoutTLS: {Error, "Give the registry a certificate, or add it to insecureRegistries: spec.registries of WindowsConfig (on OpenShift, registrySources of Image cluster).",
			"settings#registries-and-mirrors"},
		api.EventRegistryRateLimited: {Warning, "Wait until the registry accepts requests again; to pull more, add credentials for it to the pull secret of the nodes, or use a mirror.", pullsPage},
		api.EventRegistryFailed:      {Warning, "Wait; if this persists, see the log of the registry: it responds with a server error.", pullsPage},
		api.EventImageNotFound:       {Error, "Correct the name or the tag of the image, or push the image.", pullsPage},
		api.EventImageInvalid: {Error, "Build the image again with a current program and push it; if others pull it without an error, check the mirrors and proxies between the node and the " +
			"registry.", pullsPage},
		api.EventImageForbidden: {Error, "Use an image that the policy in the message accepts, or have the registry's administrator change the policy.", pullsPage},
		api.EventLayerBlocked:   {Error, "Exclude C:\\ProgramData\\containerd from the virus scanner on the node.", "settings#exclusions-in-microsoft-defender"},
		api.EventNodeDiskFull:   {Error, "Free space on drive C: of the node, or give it a larger disk.", "node-problems#disk"},
		"ErrImagePull":          {Warning, "See the registry's response in the message.", pullsPage},
		"ImagePullBackOff":      {Warning, "See the registry's response in the message.", pullsPage},
		"ErrImageNeverPull":     {Error, "Set imagePullPolicy of the container to IfNotPresent.", pullsPage},
		"ImageInspectError":     {Warning, "Check with kubectl windows status whether containerd runs on the node; the message has its response.", pullsPage},
		"InvalidImageName":      {Error, "Correct the name of the image.", pullsPage},
	}
}
