package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

const namespace = "operator"

func configMap(namespace, name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{key: value}}
}

func service(namespace, name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
}

func serviceCIDR(cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func endpoints(addresses ...string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: addresses}},
		Ports:      []discoveryv1.EndpointPort{{Port: new(int32(6443))}},
	}
}

func clusterInfo(server string) *corev1.ConfigMap {
	return configMap("kube-public", "cluster-info", "kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: '', cluster: {server: '"+server+"'}}]\n")
}

func infrastructure(server string) *unstructured.Unstructured {
	return openshift("config.openshift.io", "Infrastructure", "cluster", "status: {apiServerInternalURI: '"+server+"'}")
}

// openshift returns one of OpenShift's objects with content from YAML.
func openshift(group, kind, name, manifest string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		panic(err) // the test is invalid
	}
	o.SetAPIVersion(group + "/v1")
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// plain returns the objects that every cluster has, and a DNS Service.
func plain() []client.Object {
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "the-cluster"}},
		configMap(namespace, "kube-root-ca.crt", "ca.crt", "root"),
		configMap("kube-system", "extension-apiserver-authentication", "client-ca-file", "clients"),
		endpoints("10.0.0.5", "10.0.0.6"),
		serviceCIDR("10.96.0.0/12"),
		service("kube-system", "kube-dns", "10.96.0.10"),
	}
}

// reader serves the objects; the last of several with the same kind and name wins.
func reader(objects ...client.Object) client.WithWatch {
	last := map[string]client.Object{}
	for _, o := range objects {
		last[fmt.Sprintf("%T %s %s", o, o.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(o))] = o
	}
	b := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
	for _, o := range last {
		b = b.WithObjects(o)
	}
	return b.Build()
}

// read reads a cluster with the given objects.
func read(t *testing.T, config v1alpha1.WindowsConfigSpec, objects ...client.Object) (desired.Cluster, error) {
	t.Helper()
	return Read(t.Context(), reader(append(plain(), objects...)...), Connection{}, namespace, config)
}

func TestReadPrefersExplicitSources(t *testing.T) {
	want := desired.Cluster{
		ID: "the-cluster", Domain: "cluster.local", DomainAssumed: true, CA: "root", KubeletClientCA: "clients",
		Server: "https://10.0.0.5:6443", ServerFrom: "EndpointSlice default/kubernetes",
		ServiceCIDRs: []string{"10.96.0.0/12"}, DNSServers: []string{"10.96.0.10"},
	}
	const clusterInfoFrom = "ConfigMap kube-public/cluster-info"
	tests := []struct {
		name   string
		more   []client.Object
		change func(*desired.Cluster)
	}{
		{"plain", nil, func(*desired.Cluster) {}},
		{"kubeadm", []client.Object{clusterInfo("https://api.example:6443"), service("kube-system", "kube-dns", "10.96.0.53")},
			func(c *desired.Cluster) {
				c.Server, c.ServerFrom, c.DNSServers = "https://api.example:6443", clusterInfoFrom, []string{"10.96.0.53"}
			}},
		{"OpenShift", []client.Object{clusterInfo("https://other:6443"), infrastructure("https://api-int.example:6443"),
			service("kube-system", "kube-dns", "10.96.0.53"), service("openshift-dns", "dns-default", "10.96.0.11")},
			func(c *desired.Cluster) {
				c.Server, c.ServerFrom = "https://api-int.example:6443", "Infrastructure cluster, status.apiServerInternalURI"
				c.DNSServers, c.DomainAssumed = []string{"10.96.0.11"}, false
			}},
		{"both address families", []client.Object{endpoints("fd00::5", "10.0.0.7"), serviceCIDR("fd01::/112", "10.97.0.0/16")},
			func(c *desired.Cluster) {
				c.Server, c.ServiceCIDRs = "https://10.0.0.7:6443", []string{"10.97.0.0/16"}
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := want
			test.change(&want)
			got, err := read(t, v1alpha1.WindowsConfigSpec{}, test.more...)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestReadReportsMissingOrInvalidObjects(t *testing.T) {
	tests := []struct {
		name    string
		objects []client.Object
		wantErr string
	}{
		{"no namespace", plain()[1:], "Namespace kube-system"},
		{"no root certificate", []client.Object{plain()[0]}, "ConfigMap operator/kube-root-ca.crt"},
		{"an empty root certificate", append(plain(), configMap(namespace, "kube-root-ca.crt", "ca.crt", "")), "operator/kube-root-ca.crt has no key ca.crt"},
		{"no API server", append(plain(), endpoints()), "finding the API server's address: neither"},
		{"an API server without TLS", append(plain(), clusterInfo("http://api:80")), `"http://api:80"; it must be an https URL`},
		{"cluster-info that is no kubeconfig", append(plain(), configMap("kube-public", "cluster-info", "kubeconfig", "{")), "kube-public/cluster-info"},
		{"no service range", plain()[:4], "no ServiceCIDR exists"},
		{"an Infrastructure of another form", append(plain(), openshift("config.openshift.io", "Infrastructure", "cluster", "status: {apiServerInternalURI: [x]}")),
			"reading Infrastructure cluster: json: cannot unmarshal array into Go struct field .status.apiServerInternalURI"},
		{"services with IPv6 only", append(plain(), serviceCIDR("fd01::/112")), "no ServiceCIDR has an IPv4 range in spec.cidrs (kubernetes [fd01::/112])"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Read(t.Context(), reader(test.objects...), Connection{}, namespace, v1alpha1.WindowsConfigSpec{}); err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("error %v does not contain %q", err, test.wantErr)
			}
		})
	}
}
