package settings

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/kube"
)

// ClusterCache is what nodes must know of the cluster, as it was when settings were made last. They are whenever something of it changes, so that
// joins need not read it once more each. It knows only clusters whose network hosts can join: what is wrong is looked at anew.
type ClusterCache struct {
	// Changed gets an event when a network that was wrong is right, or wrong in another way: hosts that wait need not any more.
	Changed chan ctrlevent.GenericEvent

	mu      sync.Mutex
	known   bool
	config  v1alpha1.WindowsConfigSpec // of it, what that depends on
	cluster desired.Cluster
	finding string // what was wrong with its network
}

// NewClusterCache makes one that knows nothing yet.
func NewClusterCache() *ClusterCache {
	return &ClusterCache{Changed: make(chan ctrlevent.GenericEvent, 1)}
}

// record keeps what came of making settings.
func (o *ClusterCache) record(config v1alpha1.WindowsConfigSpec, c desired.Cluster, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.config, o.cluster = err == nil, clusterPart(config), c
	finding := ""
	if err != nil {
		finding = err.Error()
	}
	if err != nil && !errors.Is(err, desired.ErrNetwork) || finding == o.finding {
		return // what else is wrong says nothing about the network
	}
	o.finding = finding
	kube.Notify(o.Changed)
}

// Get is the cluster, where it is known for this configuration.
func (o *ClusterCache) Get(config v1alpha1.WindowsConfigSpec) (desired.Cluster, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cluster, o.known && equality.Semantic.DeepEqual(o.config, clusterPart(config))
}

// clusterPart is what the cluster depends on: the platform, which is part of its network, may come of the cloud provider.
func clusterPart(config v1alpha1.WindowsConfigSpec) v1alpha1.WindowsConfigSpec {
	return v1alpha1.WindowsConfigSpec{Network: *config.Network.DeepCopy(), CloudProvider: config.CloudProvider, Cluster: config.Cluster}
}
