package desired

import (
	"cmp"
	"encoding/json"
	"strings"
)

// kubeletConfiguration are the fields we set of the kubelet.config.k8s.io/v1beta1 KubeletConfiguration. The
// values are the original's (pkg/nodeconfig/nodeconfig.go) unless a comment says otherwise.
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
	// Thresholds that evictionHard does not name keep the kubelet's own default of its version; without this they are off.
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
	RegisterWithTaints           string            `json:"registerWithTaints"` // a marker, until the host is known
	StaticPodPath                string            `json:"staticPodPath"`
	VolumePluginDir              string            `json:"volumePluginDir"`
	// Kubelets act on these from 1.34 on, where WindowsGracefulNodeShutdown is on (pkg/features/kube_features.go); older ones take them and do
	// nothing.
	ShutdownGracePeriod             string `json:"shutdownGracePeriod,omitempty"`
	ShutdownGracePeriodCriticalPods string `json:"shutdownGracePeriodCriticalPods,omitempty"`
	// Kubelets act on these where the feature gate is on.
	CPUManagerPolicy      string              `json:"cpuManagerPolicy,omitempty"`
	MemoryManagerPolicy   string              `json:"memoryManagerPolicy,omitempty"`
	ReservedMemory        []memoryReservation `json:"reservedMemory,omitempty"`
	TopologyManagerPolicy string              `json:"topologyManagerPolicy,omitempty"`
	TopologyManagerScope  string              `json:"topologyManagerScope,omitempty"`
}

// use has the kubelet divide the machine so.
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
		// oc adm node-logs, and kubectl get --raw /api/v1/nodes/<node>/proxy/logs/, read logs and events of a host with these three. That
		// takes the right to nodes/proxy, whose owner may run commands in every pod of the node, too: they give nobody more.
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
		// The kubelet runs the FlexVolume drivers that it finds there, as SYSTEM. Its default is on Windows C:\usr\libexec\kubernetes\..., which
		// every user of the host may make and fill; the original leaves it at that.
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

// maxPods is how many pods a node may run.
func maxPods(in Inputs) int32 {
	return cmp.Or(max(in.Config.Kubelet.MaxPods, 0), 250)
}
