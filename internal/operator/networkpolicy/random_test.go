package networkpolicy_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
)

// random makes clusters, policies and connections. Few labels, ports and addresses in many relations collide more often than many.
type random struct{ *rand.Rand }

func one[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

func (r random) rarely() bool { return r.IntN(40) == 0 }

func (r random) labels() map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"app", "tier", "team"} {
		if r.IntN(3) > 0 {
			labels[key] = one(r, "a", "b", "c")
		}
	}
	return labels
}

// cluster returns a cluster whose pods have the addresses 10.0.<node>.<n>, and whose nodes have 192.168.0.<node>, 10.0.<node>.1 and
// 10.0.<node>.200.
func (r random) cluster() networkpolicy.Cluster {
	c := networkpolicy.Cluster{Nodes: map[string]networkpolicy.Node{}}
	for n := range 3 {
		node := networkpolicy.Node{Windows: n < 2, Addresses: []netip.Addr{
			netip.AddrFrom4([4]byte{192, 168, 0, byte(n)}), netip.AddrFrom4([4]byte{10, 0, byte(n), 1}), netip.AddrFrom4([4]byte{10, 0, byte(n), 200}),
		}}
		if r.IntN(4) > 0 {
			node.Pods = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n), 0}), 24)
		}
		c.Nodes[fmt.Sprint("node-", n)] = node
	}
	namespaces := []string{"blue", "green", "red"}
	for _, name := range namespaces {
		if !r.rarely() {
			c.Namespaces = append(c.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: r.labels()}})
		}
	}
	for n := range 4 + r.IntN(9) {
		c.Pods = append(c.Pods, r.pod(one(r, namespaces...), n))
	}
	for n := range r.IntN(6) {
		p := policy(one(r, namespaces...), fmt.Sprint("p-", n), r.spec())
		c.Policies = append(c.Policies, p)
	}
	return c
}

func (r random) pod(namespace string, n int) *corev1.Pod {
	node := r.IntN(3)
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID, p.Labels = namespace, fmt.Sprint("pod-", n), types.UID(fmt.Sprint("uid-", n)), r.labels()
	p.Spec.NodeName = fmt.Sprint("node-", node)
	p.Status.PodIP = fmt.Sprintf("10.0.%d.%d", node, n+4)
	if p.Spec.HostNetwork = r.IntN(6) == 0; p.Spec.HostNetwork {
		p.Status.PodIP = fmt.Sprintf("192.168.0.%d", node)
	}
	p.Status.Phase = one(r, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodUnknown)
	if r.IntN(12) == 0 {
		p.Status.Phase = one(r, corev1.PodSucceeded, corev1.PodFailed)
	}
	for _, name := range []string{"http", "dns"} {
		if r.IntN(3) > 0 {
			port := corev1.ContainerPort{Name: name, ContainerPort: one[int32](r, 80, 81, 90, 443)}
			port.Protocol = one(r, "", corev1.ProtocolTCP, corev1.ProtocolUDP)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Ports: []corev1.ContainerPort{port}})
		}
	}
	return p
}

func (r random) spec() networkingv1.NetworkPolicySpec {
	spec := networkingv1.NetworkPolicySpec{PodSelector: r.selector()}
	for range r.IntN(3) {
		spec.Ingress = append(spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: r.ports(), From: r.peers()})
	}
	for range r.IntN(3) {
		spec.Egress = append(spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: r.ports(), To: r.peers()})
	}
	const ingress, egress = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	spec.PolicyTypes = one(r, nil, nil, []networkingv1.PolicyType{}, []networkingv1.PolicyType{ingress}, []networkingv1.PolicyType{egress},
		[]networkingv1.PolicyType{ingress, egress})
	if r.rarely() {
		spec.PolicyTypes = []networkingv1.PolicyType{"Forward"}
	}
	return spec
}

func (r random) selector() metav1.LabelSelector {
	var s metav1.LabelSelector
	if r.IntN(3) == 0 {
		return s
	}
	if r.IntN(2) == 0 {
		s.MatchLabels = map[string]string{one(r, "app", "tier", "team"): one(r, "a", "b", "c")}
	}
	for range r.IntN(3) {
		e := metav1.LabelSelectorRequirement{Key: one(r, "app", "tier", "team")}
		e.Operator = one(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			e.Values = one(r, []string{"a"}, []string{"a", "b"}, []string{"c", "d"})
		}
		if r.rarely() {
			e.Operator = "Near"
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

func (r random) peers() []networkingv1.NetworkPolicyPeer {
	var peers []networkingv1.NetworkPolicyPeer
	for range r.IntN(4) {
		var p networkingv1.NetworkPolicyPeer
		switch r.IntN(4) {
		case 0:
			p.IPBlock = r.block()
		case 1:
			p.NamespaceSelector = new(r.selector())
		case 2:
			p.NamespaceSelector = new(r.selector())
			fallthrough
		default:
			p.PodSelector = new(r.selector())
		}
		if r.rarely() {
			both := networkingv1.NetworkPolicyPeer{IPBlock: r.block(), PodSelector: &metav1.LabelSelector{}}
			p = one(r, networkingv1.NetworkPolicyPeer{}, both)
		}
		peers = append(peers, p)
	}
	return peers
}

func (r random) block() *networkingv1.IPBlock {
	b := &networkingv1.IPBlock{CIDR: one(r, "0.0.0.0/0", "10.0.0.0/8", "10.0.0.7/16", "10.0.0.0/29", "10.0.1.0/24", "192.168.0.0/31",
		"203.0.113.0/28")}
	for range r.IntN(3) {
		b.Except = append(b.Except, one(r, "10.0.0.4/30", "10.0.0.6/31", "10.0.1.0/25", "192.168.0.1/32", "203.0.113.3/32", "10.0.0.5/32"))
	}
	if r.rarely() {
		b.CIDR = one(r, "", "10.0.0.0/33", "2001:db8::/32", "::/0", "ten")
	}
	if r.rarely() {
		b.Except = append(b.Except, one(r, "", "10.0.0.0/8x", "2001:db8::/64", "0.0.0.0/0"))
	}
	return b
}

func (r random) ports() []networkingv1.NetworkPolicyPort {
	var ports []networkingv1.NetworkPolicyPort
	for range r.IntN(3) {
		var p networkingv1.NetworkPolicyPort
		if r.IntN(2) == 0 {
			p.Protocol = new(one(r, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP))
		}
		switch r.IntN(4) {
		case 0:
			p.Port = new(intstr.FromString(one(r, "http", "dns", "other")))
		case 1:
			p.Port = new(intstr.FromInt32(one[int32](r, 80, 81, 443)))
		case 2:
			p.Port = new(intstr.FromInt32(one[int32](r, 1, 80, 90)))
			p.EndPort = new(p.Port.IntVal + one[int32](r, 0, 1, 10, 65444))
		}
		if r.rarely() {
			type port = networkingv1.NetworkPolicyPort
			p = one(r, port{Protocol: new(corev1.Protocol("QUIC"))}, port{EndPort: new(int32(9))},
				port{Port: new(intstr.FromInt32(81)), EndPort: new(int32(80))}, port{Port: new(intstr.FromInt32(0))})
		}
		ports = append(ports, p)
	}
	return ports
}

// connection returns a connection between addresses of the cluster, or with an address outside of it.
func (r random) connection(c networkpolicy.Cluster) connection {
	address := func() netip.Addr {
		switch r.IntN(6) {
		case 0:
			// No pod and no node has these.
			return netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(3)), one[byte](r, 0, 2, 3, 100, 199, 201, 253, 254, 255)})
		case 1:
			return netip.MustParseAddr(one(r, "203.0.113.3", "203.0.113.4", "203.0.113.16", "8.8.8.8", "255.255.255.255", "10.255.0.1"))
		case 2:
			return one(r, c.Nodes[fmt.Sprint("node-", r.IntN(3))].Addresses...)
		}
		return netip.MustParseAddr(one(r, c.Pods...).Status.PodIP)
	}
	return connection{address(), address(), one(r, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP),
		one[uint16](r, 1, 79, 80, 81, 89, 90, 91, 100, 101, 443, 65535)}
}
