package settings

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	nodev1 "k8s.io/api/node/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Renderer reads the cluster and renders what its nodes must have.
type Renderer struct {
	Live       client.Reader
	Connection cluster.Connection
	Namespace  string
	// Nodes lists Nodes and RuntimeClasses. It is a cache, since there may be thousands.
	Nodes client.Reader
	// Releases selects what nodes get.
	Releases *clusterversion.Releases
	// Cluster caches the cluster as last read.
	Cluster *ClusterCache
}

// Render reads the cluster and returns what nodes must have.
func (c *Renderer) Render(ctx context.Context, config v1alpha1.WindowsConfigSpec) (known desired.Cluster, r desired.Rendered, err error) {
	defer func() { c.Cluster.record(config, known, err) }()
	if config.RuntimeClasses.HyperV == nil {
		if config.RuntimeClasses.HyperV, err = c.remainingHyperV(ctx); err != nil {
			return known, r, err
		}
	}
	if known, err = cluster.Read(ctx, c.Live, c.Connection, c.Namespace, config); err != nil {
		return known, r, err
	}
	platform, err := cluster.ReadPlatform(ctx, c.Live)
	if err != nil {
		return known, r, err
	}
	if known.Network, err = cluster.ReadNetwork(ctx, c.Live, platform, config.Network); err != nil {
		return known, r, err
	}
	if known.Network.Nodes, err = cluster.ReadNodeNetworks(ctx, c.Nodes, platform.OpenShift, desired.Provider(config.Network, platform.OpenShift)); err != nil {
		return known, r, err
	}
	current, _ := c.Releases.Current()
	hasNodeManager := desired.HasNodeManager(current.Content)
	if known.CloudProvider, err = cluster.ReadCloudProvider(ctx, c.Nodes, platform, config.CloudProvider, hasNodeManager); err != nil {
		return known, r, err
	}
	known.Network.Platform = cmp.Or(known.Network.Platform, known.CloudProvider.Platform)
	settings, err := cluster.ReadSettings(ctx, c.Live, c.Namespace, config, time.Now())
	if err != nil {
		return known, r, err
	}
	r, err = desired.Render(desired.Inputs{
		Version: current.Version, Payload: current.Content, Cluster: known, Config: config, Settings: settings,
	})
	return known, r, err
}

// remainingHyperV returns the Hyper-V configuration that nodes keep although it is no longer configured: as long as the operator's RuntimeClass
// exists, pods use it, and their kubelets need the runtime to restart containers.
func (c *Renderer) remainingHyperV(ctx context.Context) (*v1alpha1.HyperVSpec, error) {
	var classes nodev1.RuntimeClassList
	if err := c.Nodes.List(ctx, &classes, client.MatchingLabels{api.LabelManagedBy: api.ManagedBy}); err != nil {
		return nil, fmt.Errorf("listing RuntimeClasses: %w", err)
	}
	if !slices.ContainsFunc(classes.Items, isolates) {
		return nil, nil
	}
	return &v1alpha1.HyperVSpec{}, nil
}

func isolates(class nodev1.RuntimeClass) bool { return class.Handler == api.HandlerHyperVIsolation }

// Access returns how nodes reach registries.
func (c *Renderer) Access(ctx context.Context) (desired.RegistryAccess, error) {
	config, err := kube.ReadConfig(ctx, c.Nodes)
	if err != nil {
		return desired.RegistryAccess{}, err
	}
	known, err := cluster.Read(ctx, c.Live, c.Connection, c.Namespace, config)
	if err != nil {
		return desired.RegistryAccess{}, err
	}
	settings, err := cluster.ReadSettings(ctx, c.Live, c.Namespace, config, time.Now())
	if err != nil {
		return desired.RegistryAccess{}, err
	}
	return desired.AccessOf(known, settings)
}
