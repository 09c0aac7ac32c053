package cluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
)

// ReadTLS reads the server settings of OpenShift's TLS security profile, spec.tlsSecurityProfile of its APIServer; nil on other clusters. It follows
// the profile whatever the value of spec.tlsAdherence: that field only allows components to keep ignoring the profile that always did.
func ReadTLS(ctx context.Context, r client.Reader) (*tlsprofile.Server, error) {
	apiServer, err := readCluster(ctx, r, openshiftConfig, "APIServer", "cluster")
	if apiServer == nil || err != nil {
		return nil, err
	}
	var current struct {
		Spec struct {
			Profile tlsprofile.Profile `json:"tlsSecurityProfile"`
		} `json:"spec"`
	}
	if err := decode(apiServer, &current); err != nil {
		return nil, err
	}
	server := current.Spec.Profile.Server()
	return &server, nil
}
