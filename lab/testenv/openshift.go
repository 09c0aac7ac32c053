//go:build linux

package testenv

import (
	"context"
	"fmt"
	"log"
	"path/filepath"

	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/cluster/openshift"
)

// MakeOpenShift turns the cluster into an OpenShift cluster on a platform, and installs the operator's additional manifests. It can be
// repeated. A running operator must be restarted for the kinds that it discovers at its start.
func (env *Env) MakeOpenShift(ctx context.Context, platform string) error {
	root, err := Repository(ctx)
	if err != nil {
		return err
	}
	config := env.Lab.ControlPlane.RESTConfig()
	if err := openshift.Install(ctx, config, root, platform); err != nil {
		return fmt.Errorf("making the cluster an OpenShift cluster: %w", err)
	}
	for _, dir := range []string{"openshift", "openshift/cluster-api"} {
		if err := manifest.Apply(ctx, config, filepath.Join(root, "deploy", dir)); err != nil {
			return err
		}
	}
	go openshift.InjectCAs(env.running, env.Clients, string(env.Lab.ControlPlane.CA()), func(err error) {
		log.Printf("filling a ConfigMap with CA certificates: %v", err)
	})
	return nil
}
