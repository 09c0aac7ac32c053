package cluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/tlsprofile"
)

// ReadTLS reads what OpenShift's TLS security profile, spec.tlsSecurityProfile of its APIServer, has servers offer; nil on other clusters.
// The profile is followed whatever spec.tlsAdherence says: that field allows components to ignore it that always did.
func ReadTLS(ctx context.Context, r client.Reader) (*tlsprofile.Server, error) {
	apiServer, err := readCluster(ctx, r, openshiftConfig, "APIServer", "cluster")
	if apiServer == nil || err != nil {
		return nil, err
	}
	var is struct {
		Spec struct {
			Profile tlsprofile.Profile `json:"tlsSecurityProfile"`
		} `json:"spec"`
	}
	if err := decode(apiServer, &is); err != nil {
		return nil, err
	}
	server := is.Spec.Profile.Server()
	return &server, nil
}
