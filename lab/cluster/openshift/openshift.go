//go:build linux

// Package openshift makes a cluster of the lab look like an OpenShift cluster to operators: it installs the
// CustomResourceDefinitions of OpenShift and Cluster API and the objects that OpenShift's installer and operators write, and
// has a stand-in for the network operator, which writes the cluster's CA certificates to ConfigMaps.
package openshift

import (
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

//go:embed objects/*.yaml
var objects embed.FS

// definitions returns the files with the CustomResourceDefinitions, by module. Those that depend on the feature set are for Default.
func definitions() map[string][]string {
	return map[string][]string{
		"github.com/openshift/api": {
			"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
			"payload-manifests/crds/0000_03_config-operator_01_proxies.crd.yaml",
			"payload-manifests/crds/0000_10_config-operator_01_apiservers-Default.crd.yaml",
			"payload-manifests/crds/0000_10_config-operator_01_dnses-Default.crd.yaml",
			"payload-manifests/crds/0000_10_config-operator_01_imagedigestmirrorsets.crd.yaml",
			"payload-manifests/crds/0000_10_config-operator_01_images.crd.yaml",
			"payload-manifests/crds/0000_10_config-operator_01_imagetagmirrorsets.crd.yaml",
			"payload-manifests/crds/0000_10_config-operator_01_infrastructures-Default.crd.yaml",
			"payload-manifests/crds/0000_10_config-operator_01_networks-Default.crd.yaml",
			"payload-manifests/crds/0000_80_machine-config_01_controllerconfigs-Default.crd.yaml",
			"machine/v1beta1/zz_generated.crd-manifests/0000_10_machine-api_01_machinehealthchecks.crd.yaml",
			"machine/v1beta1/zz_generated.crd-manifests/0000_10_machine-api_01_machines-Default.crd.yaml",
			"machine/v1beta1/zz_generated.crd-manifests/0000_10_machine-api_01_machinesets-Default.crd.yaml",
			"operator/v1/zz_generated.crd-manifests/0000_70_network_01_networks-Default.crd.yaml",
		},
		"sigs.k8s.io/cluster-api": {
			"core/config/crd/bases/cluster.x-k8s.io_machinedeployments.yaml",
			"core/config/crd/bases/cluster.x-k8s.io_machines.yaml",
			"core/config/crd/bases/cluster.x-k8s.io_machinesets.yaml",
			"core/config/crd/bases/ipam.cluster.x-k8s.io_ipaddressclaims.yaml",
			"core/config/crd/bases/ipam.cluster.x-k8s.io_ipaddresses.yaml",
		},
	}
}

// Install creates the kinds and the objects of an OpenShift cluster on a platform, named as in Infrastructure: None, AWS, VSphere. root
// is the folder of the repository. It is idempotent.
func Install(ctx context.Context, config *rest.Config, root, platform string) error {
	crds, err := readDefinitions(ctx, filepath.Join(root, "lab", "cluster", "openshift", "kinds"))
	if err != nil {
		return err
	}
	if err := manifest.ApplyObjects(ctx, config, crds); err != nil {
		return err
	}
	all, err := readObjects()
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := complete(o, config, platform); err != nil {
			return err
		}
	}
	return manifest.ApplyObjects(ctx, config, all)
}

// complete sets the fields that depend on the cluster: the platform, the URL of the API server, and its CA certificate.
func complete(o *unstructured.Unstructured, config *rest.Config, platform string) error {
	set := func(value string, fields ...string) error {
		return unstructured.SetNestedField(o.Object, value, fields...)
	}
	switch o.GetKind() {
	case "Infrastructure":
		return errors.Join(
			set(platform, "spec", "platformSpec", "type"), set(platform, "status", "platform"),
			set(platform, "status", "platformStatus", "type"), set(config.Host, "status", "apiServerInternalURI"),
		)
	case "ControllerConfig":
		ca := base64.StdEncoding.EncodeToString(config.CAData)
		return errors.Join(set(ca, "spec", "rootCAData"), set(ca, "spec", "kubeAPIServerServingCAData"))
	}
	return nil
}

// readDefinitions reads the CustomResourceDefinitions from the modules that kinds/go.mod pins, and downloads missing modules.
func readDefinitions(ctx context.Context, pins string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for module, files := range definitions() {
		read, err := manifest.ReadModule(ctx, pins, module, files...)
		if err != nil {
			return nil, err
		}
		all = append(all, read...)
	}
	return all, nil
}

// readObjects reads the files of folder objects, sorted by name: namespaces come first.
func readObjects() ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(objects, "objects/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, name := range names {
		f, err := objects.Open(name)
		if err != nil {
			return nil, err
		}
		read, err := manifest.Decode(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		all = append(all, read...)
	}
	return all, nil
}
