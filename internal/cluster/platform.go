package cluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Platform is what a cluster says of where it runs.
type Platform struct {
	// OpenShift says that the cluster is one.
	OpenShift bool
	// Type is OpenShift's name of the platform (AWS, Azure, GCP, VSphere, Nutanix, BareMetal, None, ...); "" where it is not known.
	Type string
}

// ReadPlatform asks OpenShift's Infrastructure where the cluster runs. No other cluster says so.
func ReadPlatform(ctx context.Context, r client.Reader) (Platform, error) {
	infrastructure, err := readCluster(ctx, r, openshiftConfig, "Infrastructure", "cluster")
	if infrastructure == nil || err != nil {
		return Platform{}, err
	}
	var is struct {
		Status struct {
			Platform       string `json:"platform"` // before OpenShift 4.2, and still filled
			PlatformStatus struct {
				Type string `json:"type"`
			} `json:"platformStatus"`
		} `json:"status"`
	}
	if err := decode(infrastructure, &is); err != nil {
		return Platform{}, err
	}
	p := Platform{OpenShift: true, Type: is.Status.PlatformStatus.Type}
	if p.Type == "" {
		p.Type = is.Status.Platform
	}
	return p, nil
}
