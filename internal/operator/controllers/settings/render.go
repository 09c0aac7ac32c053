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
func (c *Renderer) Render(ctx context.Context, config v1alpha1.WindowsConfigSpec) (desired.Cluster, desired.Rendered, error) {
	var rendered desired.Rendered
	in, err := c.read(ctx, config)
	if err == nil {
		rendered, err = desired.Render(in)
	}
	c.Cluster.record(config, in.Cluster, err)
	return in.Cluster, rendered, err
}

// read reads the cluster. Along with an error, it returns the parts read so far.
func (c *Renderer) read(ctx context.Context, config v1alpha1.WindowsConfigSpec) (in desired.Inputs, err error) {
	current, _ := c.Releases.Current()
	in = desired.Inputs{Version: current.Version, Payload: current.Content, Config: config}
	if config.RuntimeClasses.HyperV == nil {
		if in.Config.RuntimeClasses.HyperV, err = c.remainingHyperV(ctx); err != nil {
			return in, err
		}
	}
	if in.Cluster, err = cluster.Read(ctx, c.Live, c.Connection, c.Namespace, config); err != nil {
		return in, err
	}
	platform, err := cluster.ReadPlatform(ctx, c.Live)
	if err != nil {
		return in, err
	}
	network := &in.Cluster.Network
	if *network, err = cluster.ReadNetwork(ctx, c.Live, platform, config.Network); err != nil {
		return in, err
	}
	if network.Nodes, err = cluster.ReadNodeNetworks(ctx, c.Nodes, platform.OpenShift, desired.Provider(config.Network, platform.OpenShift)); err != nil {
		return in, err
	}
	hasNodeManager := desired.HasNodeManager(current.Content)
	if in.Cluster.CloudProvider, err = cluster.ReadCloudProvider(ctx, c.Nodes, platform, config.CloudProvider, hasNodeManager); err != nil {
		return in, err
	}
	network.Platform = cmp.Or(network.Platform, in.Cluster.CloudProvider.Platform)
	in.Settings, err = cluster.ReadSettings(ctx, c.Live, c.Namespace, config, time.Now())
	return in, err
}

// remainingHyperV returns the Hyper-V configuration of nodes after the user has removed it: as long as the operator's RuntimeClass exists, pods use it,
// and their kubelets need the runtime to restart containers.
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
