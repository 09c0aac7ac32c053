package desired

import (
	"cmp"
	"encoding/json"
	"strings"
)

// kubeletConfiguration has those fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that the operator sets. The values are the
// original operator's (pkg/nodeconfig/nodeconfig.go) unless a comment says otherwise.
type kubeletConfiguration struct {
	Kind               string   `json:"kind"`
	APIVersion         string   `json:"apiVersion"`
	RotateCertificates bool     `json:"rotateCertificates"`
	ServerTLSBootstrap bool     `json:"serverTLSBootstrap"`
	TLSMinVersion      string   `json:"tlsMinVersion,omitempty"`
	TLSCipherSuites    []string `json:"tlsCipherSuites,omitempty"`
	Authentication     struct {
		X509 struct {
			ClientCAFile string `json:"clientCAFile"`
		} `json:"x509"`
		Anonymous struct {
			Enabled bool `json:"enabled"`
		} `json:"anonymous"`
	} `json:"authentication"`
	ClusterDomain            string            `json:"clusterDomain"`
	ClusterDNS               []string          `json:"clusterDNS"`
	CgroupsPerQOS            bool              `json:"cgroupsPerQOS"`
	EnforceNodeAllocatable   []string          `json:"enforceNodeAllocatable"`
	RuntimeRequestTimeout    string            `json:"runtimeRequestTimeout"`
	ContainerRuntimeEndpoint string            `json:"containerRuntimeEndpoint"`
	ResolverConfig           string            `json:"resolvConf"`
	MaxPods                  int32             `json:"maxPods"`
	KubeAPIQPS               int32             `json:"kubeAPIQPS"`
	KubeAPIBurst             int32             `json:"kubeAPIBurst"`
	SerializeImagePulls      bool              `json:"serializeImagePulls"`
	EnableSystemLogHandler   bool              `json:"enableSystemLogHandler"`
	EnableSystemLogQuery     bool              `json:"enableSystemLogQuery"`
	FeatureGates             map[string]bool   `json:"featureGates"`
	ContainerLogMaxSize      string            `json:"containerLogMaxSize"`
	EvictionHard             map[string]string `json:"evictionHard,omitempty"`
	// With it, thresholds that evictionHard does not name keep the default of the kubelet's version; without it, they are off.
	MergeDefaultEvictionSettings bool              `json:"mergeDefaultEvictionSettings"`
	EvictionSoft                 map[string]string `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod      map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	EvictionMaxPodGracePeriod    int32             `json:"evictionMaxPodGracePeriod,omitempty"`
	EvictionMinimumReclaim       map[string]string `json:"evictionMinimumReclaim,omitempty"`
	SystemReserved               map[string]string `json:"systemReserved"`
	KubeReserved                 map[string]string `json:"kubeReserved,omitempty"`
	ImageGCHighThresholdPercent  int32             `json:"imageGCHighThresholdPercent,omitempty"`
	ImageGCLowThresholdPercent   int32             `json:"imageGCLowThresholdPercent,omitempty"`
	MaxParallelImagePulls        int32             `json:"maxParallelImagePulls,omitempty"`
	ContainerLogMaxFiles         int32             `json:"containerLogMaxFiles,omitempty"`
	RegisterNode                 bool              `json:"registerNode"`
	RegisterWithTaints           string            `json:"registerWithTaints"` // a placeholder until the host is known
	StaticPodPath                string            `json:"staticPodPath"`
	VolumePluginDir              string            `json:"volumePluginDir"`
	// Kubelets from 1.34 honor these, with feature gate WindowsGracefulNodeShutdown (pkg/features/kube_features.go); older ones ignore them.
	ShutdownGracePeriod             string `json:"shutdownGracePeriod,omitempty"`
	ShutdownGracePeriodCriticalPods string `json:"shutdownGracePeriodCriticalPods,omitempty"`
	// Kubelets honor these if the feature gate (affinityGate) is on.
	CPUManagerPolicy      string              `json:"cpuManagerPolicy,omitempty"`
	MemoryManagerPolicy   string              `json:"memoryManagerPolicy,omitempty"`
	ReservedMemory        []memoryReservation `json:"reservedMemory,omitempty"`
	TopologyManagerPolicy string              `json:"topologyManagerPolicy,omitempty"`
	TopologyManagerScope  string              `json:"topologyManagerScope,omitempty"`
}

// use sets how the kubelet divides the machine.
func (c *kubeletConfiguration) use(r KubeletResources) {
	c.SystemReserved, c.KubeReserved, c.EvictionHard = r.SystemReserved, r.KubeReserved, r.EvictionHard
	c.CPUManagerPolicy, c.MemoryManagerPolicy, c.ReservedMemory = r.CPUManagerPolicy, r.MemoryManagerPolicy, r.ReservedMemory
	c.TopologyManagerPolicy, c.TopologyManagerScope = r.TopologyManagerPolicy, r.TopologyManagerScope
	c.FeatureGates = map[string]bool{"NodeLogQuery": true}
	if r.isManaged() {
		c.FeatureGates[affinityGate] = true
	}
}

func (c *kubeletConfiguration) render() (string, error) {
	b, err := json.MarshalIndent(c, "", "  ")
	return string(b) + "\n", err
}

func renderKubeletConfig(in Inputs) (string, error) {
	k := in.Config.Kubelet
	c := kubeletConfiguration{
		Kind:                     "KubeletConfiguration",
		APIVersion:               "kubelet.config.k8s.io/v1beta1",
		RotateCertificates:       true,
		ServerTLSBootstrap:       true,
		ClusterDomain:            in.Cluster.Domain,
		ClusterDNS:               in.Cluster.DNSServers,
		EnforceNodeAllocatable:   []string{"none"}, // Windows cannot enforce it
		RuntimeRequestTimeout:    "10m0s",
		ContainerRuntimeEndpoint: runtimeEndpoint,
		MaxPods:                  maxPods(in),
		KubeAPIQPS:               50,
		KubeAPIBurst:             100,
		// oc adm node-logs, and kubectl get --raw /api/v1/nodes/<node>/proxy/logs/, read logs and events of a host through these two fields and
		// feature gate NodeLogQuery. Both need access to nodes/proxy, which also allows running commands in every pod of the node, so this grants
		// no further rights.
		EnableSystemLogHandler:       true,
		EnableSystemLogQuery:         true,
		ContainerLogMaxSize:          cmp.Or(k.ContainerLogMaxSize, "50Mi"),
		ContainerLogMaxFiles:         k.ContainerLogMaxFiles,
		MergeDefaultEvictionSettings: true,
		EvictionSoft:                 k.EvictionSoft,
		EvictionSoftGracePeriod:      k.EvictionSoftGracePeriod,
		EvictionMaxPodGracePeriod:    k.EvictionMaxPodGracePeriod,
		EvictionMinimumReclaim:       k.EvictionMinimumReclaim,
		ImageGCHighThresholdPercent:  k.ImageGCHighThresholdPercent,
		ImageGCLowThresholdPercent:   k.ImageGCLowThresholdPercent,
		MaxParallelImagePulls:        k.MaxParallelImagePulls,
		RegisterNode:                 true,
		RegisterWithTaints:           strings.Trim(markTaints, `"`),
		StaticPodPath:                staticPods,
		// The kubelet runs FlexVolume drivers in this folder as SYSTEM. Every user of the host may create and fill the default folder on Windows,
		// C:\usr\libexec\kubernetes\..., which the original operator uses.
		VolumePluginDir:     volumePlugins,
		ShutdownGracePeriod: k.ShutdownGracePeriod, ShutdownGracePeriodCriticalPods: k.ShutdownGracePeriodCriticalPods,
	}
	c.Authentication.X509.ClientCAFile = kubeletClientCA
	if server := in.Settings.TLS; server != nil {
		c.TLSMinVersion, c.TLSCipherSuites = server.MinVersion, server.CipherSuites
	}
	c.use(resourcesOf(k))
	return c.render()
}

// maxPods returns the maximum number of pods on a node.
func maxPods(in Inputs) int32 {
	return cmp.Or(max(in.Config.Kubelet.MaxPods, 0), 250)
}
