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

// NetworkCache is the cluster's network as it was when settings were made last. They are whenever something of it changes, so that joins
// need not read it once more each. It knows only networks that hosts can join: what is wrong is looked at anew.
type NetworkCache struct {
	// Changed gets an event when a network that was wrong is right, or wrong in another way: hosts that wait need not any more.
	Changed chan ctrlevent.GenericEvent

	mu      sync.Mutex
	known   bool
	config  v1alpha1.WindowsConfigSpec // of it, what the network depends on
	network desired.ClusterNetwork
	finding string // what was wrong with it
}

// NewNetworkCache makes one that knows no network yet.
func NewNetworkCache() *NetworkCache {
	return &NetworkCache{Changed: make(chan ctrlevent.GenericEvent, 1)}
}

// record keeps what came of making settings.
func (o *NetworkCache) record(config v1alpha1.WindowsConfigSpec, n desired.ClusterNetwork, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.config, o.network = err == nil, networkPart(config), n
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

// Get is the network, where it is known for this configuration.
func (o *NetworkCache) Get(config v1alpha1.WindowsConfigSpec) (desired.ClusterNetwork, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.network, o.known && equality.Semantic.DeepEqual(o.config, networkPart(config))
}

// networkPart is what the network depends on: the platform, which is part of it, may come of the cloud provider.
func networkPart(config v1alpha1.WindowsConfigSpec) v1alpha1.WindowsConfigSpec {
	return v1alpha1.WindowsConfigSpec{Network: *config.Network.DeepCopy(), CloudProvider: config.CloudProvider}
}
