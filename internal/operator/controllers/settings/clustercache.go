package settings

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// ClusterCache holds the cluster information that nodes need, as of the last rendering of settings. Every change triggers a rendering, so joins need not
// read the cluster again. A cluster is cached only if hosts can join its network; otherwise it is read again.
type ClusterCache struct {
	// Changed receives an event when a faulty network becomes valid, or has another fault: waiting hosts are retried.
	Changed chan ctrlevent.GenericEvent

	mu      sync.Mutex
	known   bool
	config  v1alpha1.WindowsConfigSpec // the fields on which cluster depends
	cluster desired.Cluster
	finding string // problem with the network
}

// NewClusterCache returns an empty ClusterCache.
func NewClusterCache() *ClusterCache {
	return &ClusterCache{Changed: make(chan ctrlevent.GenericEvent, 1)}
}

func (o *ClusterCache) record(config v1alpha1.WindowsConfigSpec, c desired.Cluster, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.config, o.cluster = err == nil, clusterPart(config), c
	finding := ""
	if err != nil {
		finding = err.Error()
	}
	if err != nil && !errors.Is(err, desired.ErrNetwork) || finding == o.finding {
		return // other errors do not concern the network
	}
	o.finding = finding
	kube.Notify(o.Changed)
}

// Get returns the cluster, if it is known for this configuration.
func (o *ClusterCache) Get(config v1alpha1.WindowsConfigSpec) (desired.Cluster, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cluster, o.known && equality.Semantic.DeepEqual(o.config, clusterPart(config))
}

// clusterPart returns the fields that the cluster depends on: the platform, which is part of its network, may come from the cloud provider.
func clusterPart(config v1alpha1.WindowsConfigSpec) v1alpha1.WindowsConfigSpec {
	return v1alpha1.WindowsConfigSpec{Network: *config.Network.DeepCopy(), CloudProvider: config.CloudProvider, Cluster: config.Cluster}
}
