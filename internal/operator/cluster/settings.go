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
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// API groups of OpenShift's settings. On other clusters, their kinds do not exist.
const (
	openshiftConfig = "config.openshift.io"
	machineConfig   = "machineconfiguration.openshift.io"
)

// Kinds returns the OpenShift kinds that ReadSettings and ReadNetwork read, for watches. It omits Infrastructure, which only the installer writes.
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

// ReadSettings reads the settings of all nodes. OpenShift's own objects take precedence over WindowsConfig. now is the time at which certificates
// must be valid.
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

// readProxy reads OpenShift's status, which the cluster has validated and completed, rather than the spec.
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
	var current struct {
		Status struct {
			HTTPProxy  string `json:"httpProxy"`
			HTTPSProxy string `json:"httpsProxy"`
			NoProxy    string `json:"noProxy"`
		} `json:"status"`
	}
	if err := decode(cluster, &current); err != nil {
		return err
	}
	s.Proxy = proxy.Config{
		Object: `Proxy "cluster"`, Path: "status",
		HTTPProxy: current.Status.HTTPProxy, HTTPSProxy: current.Status.HTTPSProxy, NoProxy: current.Status.NoProxy,
	}
	return nil
}

// readPodNetworks reads the pod ranges. If they are unknown, an administrator with a proxy must list them in noProxy.
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
	s.Networks = splitList(kubeadm.PodSubnet)
	return err
}

// readBundles reads the certificates to trust, also without a proxy, because nodes pull images either way.
func readBundles(ctx context.Context, r client.Reader, namespace string, s *desired.Settings) error {
	var cm corev1.ConfigMap
	err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: api.TrustedCAConfigMap}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, api.TrustedCAConfigMap, err)
	}
	// kubectl stores non-text content, such as a DER certificate, in binaryData. It is read, too, so that it is reported as unusable.
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

// registryBundle is a file with the certificate authorities of an image registry.
type registryBundle struct {
	File string `json:"file"`
	Data string `json:"data"` // base64
}

// readController reads the authorities of image registries (the administrator's, and those of the cluster's own registry) and OpenShift's release
// image.
func readController(controller *unstructured.Unstructured, s *desired.Settings) error {
	var current struct {
		Spec struct {
			User    []registryBundle `json:"imageRegistryBundleUserData"`
			Cluster []registryBundle `json:"imageRegistryBundleData"`
			Release string           `json:"releaseImage"`
		} `json:"spec"`
	}
	if err := decode(controller, &current); err != nil {
		return err
	}
	s.Registries.ReleaseImage = current.Spec.Release
	for _, field := range []struct {
		name    string
		bundles []registryBundle
	}{
		{"imageRegistryBundleUserData", current.Spec.User}, {"imageRegistryBundleData", current.Spec.Cluster},
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

// readCluster reads one of OpenShift's objects; nil if the object or its kind does not exist.
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

// decode decodes the fields of an object that into has; null counts as absent. The error names a field of the wrong type but omits its value, which
// may contain a password.
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
