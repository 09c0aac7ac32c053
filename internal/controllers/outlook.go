package controllers

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// outlook is the cluster as it was when settings were made last. They are whenever something of it changes, so that joins need not read it
// once more each: a thousand joins would ask the API server for the same twenty objects a thousand times. It knows only clusters that hosts
// can join: what is wrong is looked at anew.
type outlook struct {
	// changed gets an event when a network that was wrong is right, or wrong in another way: hosts that wait need not any more.
	changed chan ctrlevent.GenericEvent

	mu      sync.Mutex
	known   bool
	at      time.Time
	config  v1alpha1.WindowsConfigSpec
	cluster desired.Cluster
	finding string // what was wrong with its network
}

// outlookAge is how old what a host is told of the cluster may be. Not all of it is watched: its server and its certificates may change
// without an event.
const outlookAge = 30 * time.Second

func newOutlook() *outlook { return &outlook{changed: make(chan ctrlevent.GenericEvent, 1)} }

// note keeps what came of making settings.
func (o *outlook) note(config v1alpha1.WindowsConfigSpec, c desired.Cluster, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.at, o.config, o.cluster = err == nil, time.Now(), *config.DeepCopy(), c
	finding := ""
	if err != nil {
		finding = err.Error()
	}
	if err != nil && !errors.Is(err, desired.ErrNetwork) || finding == o.finding {
		return // what else is wrong says nothing about the network
	}
	o.finding = finding
	select {
	case o.changed <- ctrlevent.GenericEvent{Object: &v1alpha1.WindowsConfig{}}:
	default: // there is one that nobody has taken yet
	}
}

// network is the cluster's network, where it is known for this configuration.
func (o *outlook) network(config v1alpha1.NetworkSpec) (desired.ClusterNetwork, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cluster.Network, o.known && equality.Semantic.DeepEqual(o.config.Network, config)
}

// recent is the cluster, where settings could be made for it with this configuration a short while ago.
func (o *outlook) recent(config v1alpha1.WindowsConfigSpec) (desired.Cluster, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cluster, o.known && time.Since(o.at) < outlookAge && equality.Semantic.DeepEqual(o.config, config)
}
