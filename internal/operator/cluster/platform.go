package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

// Platform is the cluster's own information on where it runs.
type Platform struct {
	// OpenShift reports whether the cluster is an OpenShift cluster.
	OpenShift bool
	// Type is OpenShift's name of the platform (AWS, Azure, GCP, VSphere, Nutanix, BareMetal, None, ...); "" if unknown.
	Type string
	// ControllerManager is status.platformStatus.external.cloudControllerManager.state, which clusters of type External have.
	ControllerManager string
}

// ReadPlatform reads the platform from OpenShift's Infrastructure. Other clusters do not have this information.
func ReadPlatform(ctx context.Context, r client.Reader) (Platform, error) {
	infrastructure, err := readCluster(ctx, r, openshiftConfig, "Infrastructure", "cluster")
	if infrastructure == nil || err != nil {
		return Platform{}, err
	}
	var current struct {
		Status struct {
			Platform       string `json:"platform"` // before OpenShift 4.2, and still filled
			PlatformStatus struct {
				Type     string `json:"type"`
				External struct {
					ControllerManager struct {
						State string `json:"state"`
					} `json:"cloudControllerManager"`
				} `json:"external"`
			} `json:"platformStatus"`
		} `json:"status"`
	}
	if err := decode(infrastructure, &current); err != nil {
		return Platform{}, err
	}
	p := Platform{OpenShift: true, Type: current.Status.PlatformStatus.Type, ControllerManager: current.Status.PlatformStatus.External.ControllerManager.State}
	if p.Type == "" {
		p.Type = current.Status.Platform
	}
	return p, nil
}

// ReadCloudProvider determines whether an external cloud provider initializes the cluster's nodes. Linux nodes are listed from nodes, which may be a
// cache, and only outside of OpenShift. hasNodeManager is true if the payload has Azure's cloud-node-manager.
func ReadCloudProvider(
	ctx context.Context, nodes client.Reader, current Platform, setting v1alpha1.CloudProvider, hasNodeManager bool,
) (platform.Provider, error) {
	seen := platform.Evidence{OpenShift: current.OpenShift, Type: current.Type, ControllerManager: current.ControllerManager, NodeManager: hasNodeManager}
	if !current.OpenShift && setting != v1alpha1.CloudProviderNone {
		var list corev1.NodeList
		if err := nodes.List(ctx, &list, client.MatchingLabels{corev1.LabelOSStable: "linux"}, client.UnsafeDisableDeepCopy); err != nil {
			return platform.Provider{}, fmt.Errorf("listing Linux nodes: %w", err)
		}
		for i := range list.Items {
			if id := list.Items[i].Spec.ProviderID; id != "" {
				seen.ProviderIDs = append(seen.ProviderIDs, id)
			}
		}
	}
	return platform.ChooseProvider(setting, seen), nil
}
