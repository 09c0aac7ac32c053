package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/proxy"
	"github.com/windows-machine-config/wmco/internal/trust"
)

// OpenShift's objects that hold settings. On other clusters their kinds do not exist.
const (
	openshiftConfig = "config.openshift.io"
	machineConfig   = "machineconfiguration.openshift.io"
)

// Kinds are OpenShift's kinds that ReadSettings and ReadNetwork read, for whoever watches them. Infrastructure, which only its
// installer writes, is not among them.
func Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: openshiftConfig, Version: "v1", Kind: "Proxy"},
		{Group: openshiftConfig, Version: "v1", Kind: "Network"},
		{Group: openshiftOperator, Version: "v1", Kind: "Network"},
		{Group: openshiftConfig, Version: "v1", Kind: "APIServer"},
		{Group: openshiftConfig, Version: "v1", Kind: imageConfig},
		{Group: openshiftConfig, Version: "v1", Kind: digestSet},
		{Group: openshiftConfig, Version: "v1", Kind: tagSet},
		{Group: machineConfig, Version: "v1", Kind: "ControllerConfig"},
	}
}

// ReadSettings reads what concerns all nodes. OpenShift's own objects win where they exist, WindowsConfig is asked where
// they do not. now is the time at which certificates are to be valid.
func ReadSettings(ctx context.Context, r client.Reader, namespace string, config v1alpha1.WindowsConfigSpec, now time.Time) (desired.Settings, error) {
	s := desired.Settings{Now: now}
	parts := []func() error{
		func() error { return readProxy(ctx, r, config, &s) },
		func() error { return readPodNetworks(ctx, r, &s) },
		func() error { return readBundles(ctx, r, namespace, &s) },
		func() (err error) { s.TLS, err = ReadTLS(ctx, r); return err },
		func() error { return readMirrors(ctx, r, config, &s) },
		func() error { return readRegistrySources(ctx, r, config, &s) },
		func() error { return readPullSecret(ctx, r, namespace, &s) },
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return desired.Settings{}, err
		}
	}
	return s, nil
}

// readProxy takes OpenShift's status, which the cluster has checked and completed, and not its spec.
func readProxy(ctx context.Context, r client.Reader, config v1alpha1.WindowsConfigSpec, s *desired.Settings) error {
	cluster, err := readCluster(ctx, r, openshiftConfig, "Proxy", "cluster")
	if err != nil {
		return err
	}
	if cluster == nil {
		s.Proxy = proxy.Config{
			Object: `WindowsConfig "cluster"`, Path: "spec.proxy",
			HTTPProxy: config.Proxy.HTTPProxy, HTTPSProxy: config.Proxy.HTTPSProxy, NoProxy: config.Proxy.NoProxy,
		}
		return nil
	}
	var is struct {
		Status struct {
			HTTPProxy  string `json:"httpProxy"`
			HTTPSProxy string `json:"httpsProxy"`
			NoProxy    string `json:"noProxy"`
		} `json:"status"`
	}
	if err := decode(cluster, &is); err != nil {
		return err
	}
	s.Proxy = proxy.Config{
		Object: `Proxy "cluster"`, Path: "status",
		HTTPProxy: is.Status.HTTPProxy, HTTPSProxy: is.Status.HTTPSProxy, NoProxy: is.Status.NoProxy,
	}
	return nil
}

// readPodNetworks reads the ranges of pods. Where they are not known, whoever has a proxy lists them in noProxy.
func readPodNetworks(ctx context.Context, r client.Reader, s *desired.Settings) error {
	network, err := openshiftNetwork(ctx, r)
	if err != nil {
		return err
	}
	if network != nil {
		s.Networks = network.podCIDRs
		return nil
	}
	kubeadm, err := readKubeadm(ctx, r)
	s.Networks = listed(kubeadm.PodSubnet)
	return err
}

// readBundles reads the certificates to trust. With a proxy or without: nodes pull images either way.
func readBundles(ctx context.Context, r client.Reader, namespace string, s *desired.Settings) error {
	var cm corev1.ConfigMap
	err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: api.TrustedCAConfigMap}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, api.TrustedCAConfigMap, err)
	}
	// What is not text, as a certificate in DER, kubectl puts into binaryData. It is looked at so that it is named as unusable.
	for _, text := range []string{cm.Data[api.TrustedCAKey], string(cm.BinaryData[api.TrustedCAKey])} {
		if text != "" {
			s.Bundles = append(s.Bundles, trust.Bundle{Name: "ConfigMap " + cm.Name + ", key " + api.TrustedCAKey, PEM: text})
		}
	}
	controller, err := readCluster(ctx, r, machineConfig, "ControllerConfig", "machine-config-controller")
	if controller == nil || err != nil {
		return err
	}
	return readController(controller, s)
}

// registryBundle is a file with the authorities of an image registry.
type registryBundle struct {
	File string `json:"file"`
	Data string `json:"data"` // base64
}

// readController reads the authorities of image registries, those of the administrator and those of the cluster's own registry, and the image of
// OpenShift's release.
func readController(controller *unstructured.Unstructured, s *desired.Settings) error {
	var is struct {
		Spec struct {
			User    []registryBundle `json:"imageRegistryBundleUserData"`
			Cluster []registryBundle `json:"imageRegistryBundleData"`
			Release string           `json:"releaseImage"`
		} `json:"spec"`
	}
	if err := decode(controller, &is); err != nil {
		return err
	}
	s.Registries.ReleaseImage = is.Spec.Release
	for _, field := range []struct {
		name    string
		bundles []registryBundle
	}{
		{"imageRegistryBundleUserData", is.Spec.User}, {"imageRegistryBundleData", is.Spec.Cluster},
	} {
		for _, b := range field.bundles {
			place := fmt.Sprintf("ControllerConfig %s, spec.%s, file %s", controller.GetName(), field.name, b.File)
			text, err := base64.StdEncoding.DecodeString(b.Data)
			if err != nil {
				return fmt.Errorf("reading %s: %w", place, err)
			}
			s.Bundles = append(s.Bundles, trust.Bundle{Name: place, PEM: string(text)})
		}
	}
	return nil
}

// readCluster reads one of OpenShift's objects; nil where there is none, or not even its kind.
func readCluster(ctx context.Context, r client.Reader, group, kind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	err := r.Get(ctx, types.NamespacedName{Name: name}, object)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	return object, nil
}

// decode reads those fields of an object that into has; null is as good as absent. The error names the field whose type
// is another, and not its value, in which there may be a password.
func decode(object *unstructured.Unstructured, into any) error {
	text, err := json.Marshal(object.Object)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
