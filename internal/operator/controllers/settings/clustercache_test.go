package settings

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// openshift returns one of OpenShift's objects with the given YAML.
func openshift(t *testing.T, group, kind, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetAPIVersion(group + "/v1")
	o.SetKind(kind)
	o.SetName("cluster")
	return o
}

// openshiftNetwork returns the objects of an OpenShift cluster on a platform, with a hybrid overlay network.
func openshiftNetwork(t *testing.T, platform, hybridOverlay string) []client.Object {
	t.Helper()
	return []client.Object{
		openshift(t, "config.openshift.io", "Infrastructure", fmt.Sprintf("status: {apiServerInternalURI: 'https://api:6443', platformStatus: {type: %s}}", platform)),
		openshift(t, "config.openshift.io", "Network", "status: {networkType: OVNKubernetes, clusterNetwork: [{cidr: 10.128.0.0/14}]}"),
		openshift(t, "operator.openshift.io", "Network", fmt.Sprintf("spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: %s}}}", hybridOverlay)),
	}
}

// TestInvalidNetworkIsReportedNotPublished configures no provider: it defaults to OpenShift's.
func TestInvalidNetworkIsReportedNotPublished(t *testing.T) {
	for name, test := range map[string]struct {
		platform, hybridOverlay, reason, message string
	}{
		"valid":                         {"AWS", "{hybridClusterNetwork: [{cidr: 10.132.0.0/14}]}", api.ReasonPublished, ""},
		"no hybrid overlay":             {"AWS", "null", api.ReasonHybridOverlayNotConfigured, "oc patch networks.operator.openshift.io cluster"},
		"overlapping ranges":            {"AWS", "{hybridClusterNetwork: [{cidr: 10.128.0.0/16}]}", api.ReasonNetworksOverlap, "10.128.0.0/16"},
		"default VXLAN port on vSphere": {"VSphere", "{hybridClusterNetwork: [{cidr: 10.132.0.0/14}]}", api.ReasonVXLANPortRequired, "9898"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newTestSettings(t, openshiftNetwork(t, test.platform, test.hybridOverlay)...)
			config := &v1alpha1.WindowsConfig{}
			if err := c.Client.Get(t.Context(), client.ObjectKey{Name: api.WindowsConfigName}, config); err != nil {
				t.Fatal(err)
			}
			config.Spec.Network = v1alpha1.NetworkSpec{}
			if err := c.Client.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
				t.Fatal(err)
			}
			got := meta.FindStatusCondition(config.Status.Conditions, api.ConditionPublished)
			if got == nil || got.Reason != test.reason || !strings.Contains(got.Message, test.message) {
				t.Errorf("the condition is %+v", got)
			}
			isGood := test.reason == api.ReasonPublished
			found, known := c.Renderer.Cluster.Get(config.Spec)
			if known != isGood || isGood && found.Network.Type != "OVNKubernetes" {
				t.Errorf("joins find %+v, %t", found, known)
			}
			key := client.ObjectKey{Namespace: "ns", Name: api.ServicesConfigMapPrefix + controllertest.Version(c.Renderer.Releases)}
			if err := c.Live.Get(t.Context(), key, &corev1.ConfigMap{}); apierrors.IsNotFound(err) == isGood {
				t.Errorf("reading the published settings: %v", err)
			}
		})
	}
}

func TestNetworkChangeRetriesWaitingHosts(t *testing.T) {
	o := NewClusterCache()
	notified := func() bool {
		select {
		case <-o.Changed:
			return true
		default:
			return false
		}
	}
	ovn := v1alpha1.WindowsConfigSpec{Network: v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}}
	overlap := fmt.Errorf("reading: %w", &desired.NetworkError{Reason: api.ReasonNetworksOverlap, Message: "overlap"})
	for n, step := range []struct {
		err             error
		notified, known bool
	}{
		{nil, false, true}, // no host has waited
		{overlap, true, false},
		{overlap, false, false},
		{errors.New("the API server does not answer"), false, false},
		{&desired.NetworkError{Reason: api.ReasonVXLANPortRequired, Message: "port"}, true, false},
		{nil, true, true},
		{errors.New("the API server does not answer"), false, false},
		{nil, false, true},
	} {
		o.record(ovn, desired.Cluster{Network: desired.ClusterNetwork{VXLANPort: 9898}}, step.err)
		if got := notified(); got != step.notified {
			t.Errorf("step %d: notified is %t", n+1, got)
		}
		if _, known := o.Get(ovn); known != step.known {
			t.Errorf("step %d: known is %t", n+1, known)
		}
	}
	o.record(ovn, desired.Cluster{}, overlap)
	o.record(ovn, desired.Cluster{}, nil) // without a receiver
	for field, change := range map[string]func(*v1alpha1.WindowsConfigSpec){
		"network provider": func(c *v1alpha1.WindowsConfigSpec) { c.Network.Provider = v1alpha1.NetworkFlannel },
		"API server":       func(c *v1alpha1.WindowsConfigSpec) { c.Cluster.APIServer = "api.example.com:6443" },
		"DNS server":       func(c *v1alpha1.WindowsConfigSpec) { c.Network.DNS.Servers = []string{"10.0.0.10"} },
		"cloud provider":   func(c *v1alpha1.WindowsConfigSpec) { c.CloudProvider = v1alpha1.CloudProviderNone }, // on which the platform may depend
	} {
		other := *ovn.DeepCopy()
		change(&other)
		if n, known := o.Get(other); known {
			t.Errorf("for another %s, %+v is cached", field, n)
		}
	}
}
