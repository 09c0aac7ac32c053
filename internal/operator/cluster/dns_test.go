package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// kubelets returns ConfigMap kubelet-config as kubeadm writes it.
func kubelets(fields string) client.Object {
	return configMap("kube-system", "kubelet-config", "kubelet", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+fields)
}

// noDNS replaces Service kube-dns with a headless one.
func noDNS() client.Object { return service("kube-system", "kube-dns", corev1.ClusterIPNone) }

// labeled returns a Service in kube-system with label k8s-app, a port and addresses.
func labeled(name, label string, port int32, ips ...string) client.Object {
	s := service("kube-system", name, ips[0])
	s.Labels, s.Spec.ClusterIPs = map[string]string{"k8s-app": label}, ips
	s.Spec.Ports = []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolUDP}}
	return s
}

func TestDNSIsReadFromMostExplicitSource(t *testing.T) {
	kubeadm := configMap("kube-system", "kubeadm-config", "ClusterConfiguration", "networking: {dnsDomain: k8s.example}")
	tests := map[string]struct {
		config  v1alpha1.DNSSpec
		objects []client.Object
		domain  string
		servers []string
		assumed bool
	}{
		"kubelet configuration": { // https://github.com/kubernetes-sigs/kubespray/issues/6631
			objects: []client.Object{kubelets("clusterDNS: [10.233.0.3]\nclusterDomain: cluster.development"), kubeadm, noDNS()},
			domain:  "cluster.development", servers: []string{"10.233.0.3"}},
		"more than three IPv4 servers for kubelets": {
			objects: []client.Object{kubelets("clusterDNS: ['fd01::a', 10.96.0.1, 10.96.0.2, 10.96.0.3, 10.96.0.4]\nclusterDomain: Cluster.Development."), noDNS()},
			domain:  "cluster.development", servers: []string{"10.96.0.1", "10.96.0.2", "10.96.0.3"}},
		"DNS cache on each Linux node": { // https://github.com/kubernetes-sigs/kubespray/blob/master/docs/advanced/dns-stack.md
			objects: []client.Object{kubelets("clusterDNS: [169.254.25.10]\nclusterDomain: cluster.local"), noDNS(), labeled("coredns", "kube-dns", 53, "10.233.0.3")},
			domain:  "cluster.local", servers: []string{"10.233.0.3"}},
		"kubelet configuration without DNS": {
			objects: []client.Object{kubelets("maxPods: 10"), kubeadm}, domain: "k8s.example", servers: []string{"10.96.0.10"}},
		"ConfigMap in another format": {
			objects: []client.Object{configMap("kube-system", "kubelet-config", "other", "x"), kubeadm}, domain: "k8s.example", servers: []string{"10.96.0.10"}},
		"Service with an IPv6 address first": { // https://github.com/kubernetes/kubernetes/issues/136240
			objects: []client.Object{labeled("kube-dns", "kube-dns", 53, "fd01::a", "10.97.0.53")},
			domain:  "cluster.local", servers: []string{"10.97.0.53"}, assumed: true},
		"Service with the label only": { // https://github.com/kubernetes-sigs/kubespray/issues/6869
			objects: []client.Object{noDNS(), labeled("coredns", "coredns", 53, "10.233.0.3"), labeled("metrics", "coredns", 9153, "10.233.0.9")},
			domain:  "cluster.local", servers: []string{"10.233.0.3"}, assumed: true},
		"the Service of RKE2": { // https://docs.rke2.io/networking/networking_services
			objects: []client.Object{noDNS(), labeled("rke2-coredns-rke2-coredns", "kube-dns", 53, "10.43.0.10")},
			domain:  "cluster.local", servers: []string{"10.43.0.10"}, assumed: true},
		"WindowsConfig sets all": { // https://github.com/kubernetes-sigs/kubespray/issues/4298
			config:  v1alpha1.DNSSpec{Domain: "corp.example", Servers: []string{"10.1.2.3", "10.1.2.4"}},
			objects: []client.Object{configMap("kube-system", "kubelet-config", "kubelet", "{")}, domain: "corp.example", servers: []string{"10.1.2.3", "10.1.2.4"}},
		"WindowsConfig sets one": {
			config:  v1alpha1.DNSSpec{Servers: []string{"10.1.2.3"}},
			objects: []client.Object{kubelets("clusterDNS: [10.233.0.3]\nclusterDomain: cluster.development")}, domain: "cluster.development", servers: []string{"10.1.2.3"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, v1alpha1.WindowsConfigSpec{Network: v1alpha1.NetworkSpec{DNS: test.config}}, test.objects...)
			if err != nil || got.Domain != test.domain || !slices.Equal(got.DNSServers, test.servers) || got.DomainAssumed != test.assumed {
				t.Errorf("%v: domain %q (assumed: %t), servers %q; want %q (%t), %q", err, got.Domain, got.DomainAssumed, got.DNSServers, test.domain, test.assumed, test.servers)
			}
		})
	}
}

// TestDNSDomainIsReadFromAPIServerCertificate covers clusters without an object that has the domain, such as RKE2, k3s and kops.
func TestDNSDomainIsReadFromAPIServerCertificate(t *testing.T) {
	usual := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	tests := map[string]struct {
		names   []string
		objects []client.Object
		domain  string
		assumed bool
	}{
		"one":                                    {names: append(usual, "kubernetes.default.svc.corp.example"), domain: "corp.example"},
		"Kubernetes' default":                    {names: append(usual, "kubernetes.default.svc.cluster.local"), domain: "cluster.local"},
		"twice, in capitals":                     {names: append(usual, "kubernetes.default.svc.corp.example", "Kubernetes.Default.SVC.Corp.Example."), domain: "corp.example"},
		"two":                                    {names: append(usual, "kubernetes.default.svc.cluster.local", "kubernetes.default.svc.corp.example"), domain: "cluster.local", assumed: true},
		"shortened names":                        {names: append(usual, "kubernetes.default.svc.cluster", "kubernetes.default.svc.cluster.local"), domain: "cluster.local", assumed: true},
		"none":                                   {names: usual, domain: "cluster.local", assumed: true},
		"no domain":                              {names: append(usual, "kubernetes.default.svc.*", "kubernetes.default.svc."), domain: "cluster.local", assumed: true},
		"a wildcard":                             {names: []string{"*.default.svc.corp.example"}, domain: "cluster.local", assumed: true},
		"kubelet configuration takes precedence": {names: append(usual, "kubernetes.default.svc.corp.example"), objects: []client.Object{kubelets("clusterDomain: k8s.example")}, domain: "k8s.example"},
		"OpenShift always uses the default":      {names: append(usual, "kubernetes.default.svc.corp.example"), objects: []client.Object{infrastructure("https://api-int.example:6443")}, domain: "cluster.local"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			via := Connection{ServerNames: func(context.Context) ([]string, error) { return test.names, nil }}
			got, err := Read(t.Context(), reader(append(plain(), test.objects...)...), via, namespace, v1alpha1.WindowsConfigSpec{})
			if err != nil || got.Domain != test.domain || got.DomainAssumed != test.assumed {
				t.Errorf("%v: domain %q (assumed: %t), want %q (%t)", err, got.Domain, got.DomainAssumed, test.domain, test.assumed)
			}
			known, _, err := ReadAddresses(t.Context(), reader(append(plain(), test.objects...)...), via, v1alpha1.WindowsConfigSpec{})
			if err != nil || known.Domain != test.domain {
				t.Errorf("%v: names of the domain %q, want %q", err, known.Domain, test.domain)
			}
		})
	}
	silent := Connection{ServerNames: func(context.Context) ([]string, error) { return nil, errors.New("no route to host") }}
	if got, err := Read(t.Context(), reader(plain()...), silent, namespace, v1alpha1.WindowsConfigSpec{}); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("without an answer: domain %q, error %v", got.Domain, err)
	}
}

func TestDNSIsNeverGuessed(t *testing.T) {
	tests := map[string]struct {
		config  v1alpha1.DNSSpec
		objects []client.Object
		wantErr []string
	}{
		"none": {objects: []client.Object{noDNS()}, wantErr: []string{"kube-system/kubelet-config does not exist", "kube-system/kube-dns has no IPv4 address", "spec.network.dns.servers"}},
		"IPv6 only": {
			objects: []client.Object{kubelets("clusterDNS: ['fd01::a']"), service("kube-system", "kube-dns", "fd01::a")},
			wantErr: []string{`clusterDNS in ConfigMap kube-system/kubelet-config is ["fd01::a"]`, "spec.network.dns.servers"}},
		"DNS cache on each Linux node only": {
			objects: []client.Object{kubelets("clusterDNS: [169.254.20.10]"), noDNS(), labeled("node-local-dns", "node-local-dns", 53, "10.96.0.99")},
			wantErr: []string{"169.254.20.10"}},
		"link-local server in WindowsConfig": {config: v1alpha1.DNSSpec{Servers: []string{"169.254.20.10"}}, wantErr: []string{"spec.network.dns.servers", "169.254.20.10"}},
		"invalid domain":                     {objects: []client.Object{kubelets("clusterDomain: 'a b'")}, wantErr: []string{"clusterDomain", `"a b"`, "spec.network.dns.domain"}},
		"no configuration of kubelets":       {objects: []client.Object{configMap("kube-system", "kubelet-config", "kubelet", "{")}, wantErr: []string{"kube-system/kubelet-config", "spec.network.dns"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, v1alpha1.WindowsConfigSpec{Network: v1alpha1.NetworkSpec{DNS: test.config}}, test.objects...)
			if !errors.Is(err, desired.ErrNetwork) {
				t.Fatalf("%+v, error %v; want an error about the network", got, err)
			}
			for _, wantErr := range test.wantErr {
				if !strings.Contains(err.Error(), wantErr) {
					t.Errorf("%v does not contain %q", err, wantErr)
				}
			}
		})
	}
	_, err := read(t, v1alpha1.WindowsConfigSpec{}, noDNS())
	if reason := (*desired.NetworkError)(nil); !errors.As(err, &reason) || reason.Reason != api.ReasonClusterDNSUnknown {
		t.Errorf("error %v, want one of reason %s", err, api.ReasonClusterDNSUnknown)
	}
}
