package bugreports

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// clusterReports are reports about clusters: their DNS, Services and API server, and the addresses and names of nodes.
func clusterReports() []report {
	return append(append(dnsReports(), serverReports()...), nodeReports()...)
}

func dnsReports() []report {
	const tenth = "10.43.0.10"
	return []report{{
		link:  "https://github.com/kubernetes-sigs/kubespray/issues/6631",
		input: "kubespray: the DNS Service is coredns, at the third address, and kubelets get another domain",
		want:  "10.233.0.3 cluster.development",
		outcome: dns(v1alpha1.DNSSpec{}, dnsService("coredns", "coredns", "10.233.0.3"),
			kubelets("clusterDNS: [10.233.0.3]\nclusterDomain: cluster.development")),
	}, {
		link:    "https://github.com/kubernetes-sigs/kubespray/issues/6869",
		input:   "a DNS Service of another name, and nothing else that tells where it is",
		want:    "10.233.0.3 cluster.local (assumed)",
		outcome: dns(v1alpha1.DNSSpec{}, dnsService("coredns", "kube-dns", "10.233.0.3")),
	}, {
		link:    "https://github.com/kubernetes-sigs/kubespray/blob/master/docs/advanced/dns-stack.md",
		input:   "kubespray's cache of DNS on each Linux node, at a link-local address",
		want:    "10.233.0.3 cluster.local",
		outcome: dns(v1alpha1.DNSSpec{}, dnsService("coredns", "kube-dns", "10.233.0.3"), kubelets("clusterDNS: [169.254.25.10]\nclusterDomain: cluster.local")),
	}, {
		link:    "https://github.com/kubernetes/kubernetes/issues/136240",
		input:   "a DNS Service of both families, IPv6 first",
		want:    "10.97.0.53 cluster.local (assumed)",
		outcome: dns(v1alpha1.DNSSpec{}, dnsService("kube-dns", "kube-dns", "fd01::a", "10.97.0.53")),
	}, {
		link:    "https://docs.rke2.io/networking/networking_services",
		input:   "RKE2: Service rke2-coredns-rke2-coredns, and no configuration of kubelets",
		want:    tenth + " cluster.local (assumed)",
		outcome: dns(v1alpha1.DNSSpec{}, dnsService("rke2-coredns-rke2-coredns", "kube-dns", tenth)),
	}, {
		link:    "https://github.com/kubernetes-sigs/kubespray/issues/4298",
		input:   "a cluster whose DNS nothing tells: its tenth address is not taken for it",
		want:    api.ReasonClusterDNSUnknown,
		outcome: dns(v1alpha1.DNSSpec{}),
	}, {
		link:    "https://github.com/kubernetes-sigs/kubespray/issues/4298",
		input:   "the same, and the administrator says it",
		want:    "10.233.0.3 cluster.development",
		outcome: dns(v1alpha1.DNSSpec{Domain: "cluster.development", Servers: []string{"10.233.0.3"}}),
	}, {
		link:  "https://github.com/kubernetes/kubernetes/issues/104088",
		input: "a second ServiceCIDR",
		want:  "10.96.0.0/12 10.200.0.0/16",
		outcome: services(&networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "newcidr1"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.200.0.0/16"}},
		}),
	}, {
		link:  "https://github.com/kubeovn/kube-ovn/issues/3509",
		input: "a second ServiceCIDR of both families",
		want:  "10.96.0.0/12 10.201.0.0/16",
		outcome: services(&networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"fd02::/112", "10.201.0.0/16"}},
		}),
	}}
}

func serverReports() []report {
	const own = "https://10.0.0.5:6443 of EndpointSlice default/kubernetes"
	return []report{{
		link:    "https://github.com/kubernetes-sigs/kubespray/issues/12136",
		input:   "cluster-info has the loopback address of a proxy on each Linux node",
		want:    own,
		outcome: server("https://127.0.0.1:6443", ""),
	}, {
		link:    "https://github.com/kubernetes-sigs/kubespray/issues/12851",
		input:   "cluster-info has localhost",
		want:    own,
		outcome: server("https://localhost:6443", ""),
	}, {
		link:    "https://github.com/kubernetes-sigs/kubespray/pull/12137",
		input:   "cluster-info has a name that only Linux nodes know, and the administrator says another address",
		want:    `https://10.0.0.100:6443 of WindowsConfig "cluster", spec.cluster.apiServer`,
		outcome: server("https://lb-apiserver.kubernetes.local:6443", "10.0.0.100:6443"),
	}}
}

func nodeReports() []report {
	return []report{{
		link:    "https://github.com/microsoft/SDN/issues/315",
		input:   "an adapter with two addresses, of which the operator reached the second",
		want:    "10.0.0.7",
		outcome: nodeIP("10.0.0.7", wicdapi.Interface{Name: "Ethernet", DefaultRoute: true, Addresses: prefixes("10.0.0.200/24", "10.0.0.7/24")}),
	}, {
		link:  "https://github.com/rancher/rancher/issues/22475",
		input: "an adapter whose first address moves with a failover cluster",
		want:  "10.0.0.7",
		outcome: nodeIP("10.9.9.9", wicdapi.Interface{
			Name: "Ethernet", DefaultRoute: true, Addresses: prefixes("10.0.0.200/24", "10.0.0.7/24"),
			States: []wicdapi.AddressState{{Address: netip.MustParseAddr("10.0.0.200"), State: "Preferred", Cluster: true}},
		}),
	}, {
		link:  "https://github.com/kubernetes/kubernetes/issues/44702",
		input: "VirtualBox: the default route is behind NAT, with an address that all machines have, and the administrator chooses the other one",
		want:  "192.168.56.7",
		outcome: func(*testing.T) string {
			f := aHost("win-1")
			f.Reached = netip.MustParseAddr("192.168.56.7")
			f.Host.Interfaces = []wicdapi.Interface{
				{Name: "Ethernet", DefaultRoute: true, Addresses: prefixes("10.0.2.15/24")}, {Name: "Ethernet 2", Addresses: prefixes("192.168.56.7/24")},
			}
			return join.NodeIP(f, &v1alpha1.InstanceNetwork{CIDR: "192.168.56.0/24"})
		},
	}, {
		link:    "https://github.com/terraform-aws-modules/terraform-aws-eks/issues/389",
		input:   "AWS: a name longer than a node can have",
		want:    api.ReasonHostnameInvalid,
		outcome: cloudName("ip-10-0-0-1." + strings.Repeat("long.", 12) + "internal"),
	}, {
		link:    "https://github.com/kubernetes/kops/issues/3067",
		input:   "AWS: a name in a domain of one's own",
		want:    "ip-10-0-0-1.corp.example",
		outcome: cloudName("ip-10-0-0-1.corp.example"),
	}, {
		link:    "https://github.com/kubernetes/cloud-provider-aws/issues/799",
		input:   "a node that its cloud's controller does not find",
		want:    api.ReasonCloudNotInitialized,
		outcome: uninitialized,
	}, {
		link:  "https://github.com/kubernetes-sigs/cluster-api-provider-azure/issues/2533",
		input: "Azure's provider ID in other cases",
		want:  "true",
		outcome: func(*testing.T) string {
			m := machines.Machine{ProviderID: "azure:///subscriptions/1/resourceGroups/MyGroup/providers/Microsoft.Compute/virtualMachines/win-1"}
			return fmt.Sprint(m.IsNode("azure:///subscriptions/1/resourcegroups/mygroup/providers/Microsoft.Compute/virtualMachines/win-1"))
		},
	}, {
		link:    "https://github.com/kubernetes-sigs/cluster-api/issues/2217",
		input:   "vSphere: a Machine whose name Windows would cut",
		want:    machines.FaultName,
		outcome: machineNamed("windows-workers-7xq2p"),
	}, {
		link:    "https://github.com/kubernetes/kubernetes/issues/106640",
		input:   "vSphere: a Machine whose name is as long as Windows allows",
		want:    "windows-w-7xq2p",
		outcome: machineNamed("windows-w-7xq2p"),
	}, {
		link:    "https://github.com/rancher/rke2/issues/5952",
		input:   "Flannel with its default VNI and port",
		want:    api.ReasonFlannelUnsuitable,
		outcome: flannel(`{"Network": "10.42.0.0/16", "Backend": {"Type": "vxlan"}}`),
	}, {
		link:    "https://github.com/kubernetes-sigs/sig-windows-tools/issues/301",
		input:   "Flannel with VNI and port of Windows",
		want:    "hosts join",
		outcome: flannel(`{"Network": "10.42.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`),
	}, {
		link:    "https://github.com/rancher/rke2/issues/7978",
		input:   "a host name with an underscore",
		want:    api.ReasonHostnameInvalid,
		outcome: hostNamed("WIN_1"),
	}, {
		link:    "https://github.com/Azure/AKSFlexNode/issues/184",
		input:   "a host name in capitals",
		want:    "win-1",
		outcome: hostNamed("WIN-1"),
	}}
}

// readCluster reads a cluster that has these objects, and those of every cluster.
func readCluster(t *testing.T, config v1alpha1.WindowsConfigSpec, objects ...client.Object) (desired.Cluster, error) {
	t.Helper()
	port := int32(6443)
	b := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "1"}},
		configMap("operator", "kube-root-ca.crt", "ca.crt", "root"),
		configMap("kube-system", "extension-apiserver-authentication", "client-ca-file", "clients"),
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.5"}}}, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		})
	return cluster.Read(t.Context(), b.Build(), cluster.Connection{}, "operator", config)
}

func configMap(namespace, name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{key: value}}
}

// kubelets returns ConfigMap kubelet-config, as kubeadm writes it.
func kubelets(says string) client.Object {
	return configMap("kube-system", "kubelet-config", "kubelet", says)
}

// dnsService returns a Service of kube-system with label k8s-app and these addresses.
func dnsService(name, label string, ips ...string) client.Object {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{"k8s-app": label}},
		Spec:       corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips, Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}}},
	}
}

// dns returns the DNS servers and domain of pods, or the reason why hosts wait.
func dns(config v1alpha1.DNSSpec, objects ...client.Object) func(*testing.T) string {
	return func(t *testing.T) string {
		got, err := readCluster(t, v1alpha1.WindowsConfigSpec{Network: v1alpha1.NetworkSpec{DNS: config}}, objects...)
		if err != nil {
			return join.Reason(err)
		}
		text := strings.Join(got.DNSServers, ",") + " " + got.Domain
		if got.DomainAssumed {
			text += " (assumed)"
		}
		return text
	}
}

// services returns the Service ranges that nodes know.
func services(objects ...client.Object) func(*testing.T) string {
	return func(t *testing.T) string {
		got, err := readCluster(t, v1alpha1.WindowsConfigSpec{}, append(objects, dnsService("kube-dns", "kube-dns", "10.96.0.10"))...)
		if err != nil {
			return err.Error()
		}
		return strings.Join(got.ServiceCIDRs, " ")
	}
}

// server returns the API server address of hosts if cluster-info has one address, and WindowsConfig another.
func server(info, config string) func(*testing.T) string {
	return func(t *testing.T) string {
		got, err := readCluster(t, v1alpha1.WindowsConfigSpec{Cluster: v1alpha1.ClusterSpec{APIServer: config}}, dnsService("kube-dns", "kube-dns", "10.96.0.10"),
			configMap("kube-public", "cluster-info", "kubeconfig", "clusters: [{name: '', cluster: {server: '"+info+"'}}]"))
		if err != nil {
			return err.Error()
		}
		return got.Server + " of " + got.ServerFrom
	}
}

// now is the time of the checks.
func now() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }

// aHost returns a host that can become a node.
func aHost(name string) wicdapi.Facts {
	return wicdapi.Facts{Host: wicdapi.HostFacts{
		Hostname: name, Build: 20348, UBR: 2402, Installation: "Server Core", Architecture: "amd64", Clock: now(), FreeBytes: 60 << 30,
		Interfaces: []wicdapi.Interface{{Name: "Ethernet", DefaultRoute: true, Addresses: prefixes("10.0.0.7/24")}},
	}}
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// nodeIP returns the node address of a host that was reached at an address and has an interface.
func nodeIP(reached string, i wicdapi.Interface) func(*testing.T) string {
	return func(*testing.T) string {
		f := aHost("win-1")
		f.Reached, f.Host.Interfaces = netip.MustParseAddr(reached), []wicdapi.Interface{i}
		return join.NodeIP(f, nil)
	}
}

// named returns the name of the host's node, or the reason why it has none.
func named(f wicdapi.Facts) string {
	if u := join.Check(f, join.CheckInput{Now: now()}); u != nil {
		return u.Reason
	}
	return join.NodeName(f)
}

func hostNamed(name string) func(*testing.T) string {
	return func(*testing.T) string { return named(aHost(name)) }
}

func cloudName(name string) func(*testing.T) string {
	return func(*testing.T) string {
		f := aHost("EC2AMAZ-1")
		f.Platform, f.CloudName = platform.AWS, name
		return named(f)
	}
}

// uninitialized returns why a node that has waited an hour for its cloud is not Ready.
func uninitialized(*testing.T) string {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "win-1", CreationTimestamp: metav1.NewTime(now().Add(-time.Hour))},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: api.TaintUninitialized, Effect: corev1.TaintEffectNoSchedule}}},
	}
	var st v1alpha1.WindowsInstanceStatus
	join.Observe(&st, 1, node, "1", now())
	for _, c := range st.Conditions {
		if c.Type == api.ConditionNodeReady {
			return c.Reason
		}
	}
	return ""
}

// machineNamed returns the host name of a vSphere Machine, or its fault.
func machineNamed(name string) func(*testing.T) string {
	return func(*testing.T) string {
		d := machines.Decide(machines.Machine{
			Windows: true, Namespace: "openshift-machine-api", Name: name, Phase: "Running", Platform: platform.VSphere, Addresses: []string{"10.0.0.5"},
		}, machines.Cluster{Namespace: "operator"})
		if d.Instance == nil {
			return d.Fault
		}
		return d.Instance.Spec.Hostname
	}
}

// flannel returns why hosts do not join a cluster with this Flannel configuration.
func flannel(text string) func(*testing.T) string {
	return func(*testing.T) string {
		conf, err := desired.ParseFlannel(text)
		if err != nil {
			return err.Error()
		}
		in := desired.Inputs{
			Config:  v1alpha1.WindowsConfigSpec{Network: v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}},
			Cluster: desired.Cluster{ServiceCIDRs: []string{"10.43.0.0/16"}, Network: desired.ClusterNetwork{Flannel: &conf}},
		}
		err = desired.CheckNetwork(in)
		if reason := (*desired.NetworkError)(nil); errors.As(err, &reason) {
			return reason.Reason
		}
		if err != nil {
			return err.Error()
		}
		return "hosts join"
	}
}
