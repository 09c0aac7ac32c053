package networkpolicy_test

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
)

// evaluator decides about single connections by the text of the NetworkPolicy API, one policy after the other. It shares no code with the
// compiler. For invalid objects, which have no meaning in the API, it has the rule of the package: what is invalid allows nothing.
type evaluator struct {
	networkpolicy.Cluster
}

// allows reports whether the policies of a pod allow a connection to it (ingress) or from it.
func (e evaluator) allows(pod *corev1.Pod, ingress bool, c connection) bool {
	remote := c.to
	if ingress {
		remote = c.from
	}
	if remote.String() == pod.Status.PodIP {
		return true // a pod cannot block access to itself
	}
	if ingress && slices.Contains(e.Nodes[pod.Spec.NodeName].Addresses, remote) {
		return true // the traffic source is the pod's local node
	}
	isolated := false
	for _, p := range e.Policies {
		selected, valid := matches(&p.Spec.PodSelector, pod.Labels)
		if p.Namespace != pod.Namespace || valid && !selected || !affects(p, ingress) {
			continue
		}
		isolated = true
		if !valid {
			continue
		}
		if ingress {
			for _, r := range p.Spec.Ingress {
				if e.ruleAllows(ruleText{p.Namespace, r.From, r.Ports}, remote, pod, c) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Egress {
			if e.ruleAllows(ruleText{p.Namespace, r.To, r.Ports}, remote, nil, c) {
				return true
			}
		}
	}
	return !isolated
}

func affects(p *networkingv1.NetworkPolicy, ingress bool) bool {
	types := p.Spec.PolicyTypes
	if len(types) == 0 {
		return ingress || len(p.Spec.Egress) > 0
	}
	for _, policyType := range types {
		switch policyType {
		case networkingv1.PolicyTypeIngress:
			if ingress {
				return true
			}
		case networkingv1.PolicyTypeEgress:
			if !ingress {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// ruleText is an ingress or egress rule of a policy in a namespace.
type ruleText struct {
	namespace string
	peers     []networkingv1.NetworkPolicyPeer
	ports     []networkingv1.NetworkPolicyPort
}

// ruleAllows reports whether traffic matches both peers and ports. The destination of ingress is known; that of egress is each pod with
// the remote address, or none.
func (e evaluator) ruleAllows(r ruleText, remote netip.Addr, destination *corev1.Pod, c connection) bool {
	at := e.podsAt(remote)
	isPeer := func(pods []*corev1.Pod) bool {
		if len(r.peers) == 0 {
			return true
		}
		return slices.ContainsFunc(r.peers, func(p networkingv1.NetworkPolicyPeer) bool { return e.isPeer(r.namespace, p, remote, pods) })
	}
	if len(r.ports) == 0 {
		return isPeer(at)
	}
	for _, port := range r.ports {
		if port.Port == nil || port.Port.Type == intstr.Int {
			if hasNumber(port, c) && isPeer(at) {
				return true
			}
			continue
		}
		if destination != nil {
			if hasName(port, c, destination) && isPeer(at) {
				return true
			}
			continue
		}
		for _, pod := range at {
			if hasName(port, c, pod) && isPeer([]*corev1.Pod{pod}) {
				return true
			}
		}
	}
	return false
}

func (e evaluator) podsAt(address netip.Addr) (pods []*corev1.Pod) {
	for _, p := range e.Pods {
		isAtNode := p.Spec.HostNetwork && slices.Contains(e.Nodes[p.Spec.NodeName].Addresses, address)
		if isRunning(p) && (isAtNode || p.Status.PodIP == address.String()) {
			pods = append(pods, p)
		}
	}
	return pods
}

func (e evaluator) isPeer(namespace string, peer networkingv1.NetworkPolicyPeer, remote netip.Addr, pods []*corev1.Pod) bool {
	if peer.IPBlock != nil {
		return peer.PodSelector == nil && peer.NamespaceSelector == nil && isInBlock(*peer.IPBlock, remote)
	}
	if peer.PodSelector == nil && peer.NamespaceSelector == nil {
		return false
	}
	isEmpty := func(s *metav1.LabelSelector) bool { return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 }
	if peer.NamespaceSelector != nil && isEmpty(peer.NamespaceSelector) && isEmpty(peer.PodSelector) {
		return len(pods) > 0 || e.mayBecomePod(remote)
	}
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		inNamespace := p.Namespace == namespace
		if peer.NamespaceSelector != nil {
			inNamespace = slices.ContainsFunc(e.Namespaces, func(n *corev1.Namespace) bool {
				selected, valid := matches(peer.NamespaceSelector, n.Labels)
				return n.Name == p.Namespace && selected && valid
			})
		}
		if peer.PodSelector == nil {
			return inNamespace
		}
		selected, valid := matches(peer.PodSelector, p.Labels)
		return inNamespace && selected && valid
	})
}

// mayBecomePod reports whether a node may give an address to a pod: it is in its subnet, and is not one of those that networks use for the
// node.
func (e evaluator) mayBecomePod(address netip.Addr) bool {
	for name, node := range e.Nodes {
		if !node.Pods.Contains(address) {
			continue
		}
		hasHostPod := slices.ContainsFunc(e.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == name && p.Spec.HostNetwork && isRunning(p) })
		n := address.As4()[3]
		return hasHostPod || n >= 4 && n <= 253 && !slices.Contains(node.Addresses, address) // the random subnets have 256 addresses
	}
	return false
}

func isInBlock(b networkingv1.IPBlock, address netip.Addr) bool {
	block, err := netip.ParsePrefix(b.CIDR)
	if err != nil || !block.Contains(address) {
		return false
	}
	for _, text := range b.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil || !block.Contains(except.Addr()) || except.Bits() <= block.Bits() || except.Contains(address) {
			return false
		}
	}
	return true
}

// matches reports whether a selector selects labels, and whether it is valid.
func matches(s *metav1.LabelSelector, labels map[string]string) (selected, valid bool) {
	selected = true
	for key, value := range s.MatchLabels {
		selected = selected && labels[key] == value // the random labels have no empty values
	}
	for _, r := range s.MatchExpressions {
		value, found := labels[r.Key]
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			selected = selected && found && slices.Contains(r.Values, value)
		case metav1.LabelSelectorOpNotIn:
			selected = selected && (!found || !slices.Contains(r.Values, value))
		case metav1.LabelSelectorOpExists:
			selected = selected && found
		case metav1.LabelSelectorOpDoesNotExist:
			selected = selected && !found
		default:
			return false, false
		}
	}
	return selected, true
}

func protocolOf(p networkingv1.NetworkPolicyPort) corev1.Protocol {
	if p.Protocol == nil {
		return corev1.ProtocolTCP
	}
	return *p.Protocol
}

func hasNumber(p networkingv1.NetworkPolicyPort, c connection) bool {
	if protocolOf(p) != c.protocol {
		return false
	}
	if p.Port == nil {
		return p.EndPort == nil
	}
	first, last := p.Port.IntVal, p.Port.IntVal
	if p.EndPort != nil {
		last = *p.EndPort
	}
	return first >= 1 && last <= 65535 && first <= int32(c.port) && int32(c.port) <= last
}

func hasName(p networkingv1.NetworkPolicyPort, c connection, destination *corev1.Pod) bool {
	if protocolOf(p) != c.protocol || p.EndPort != nil {
		return false
	}
	for _, container := range destination.Spec.Containers {
		for _, port := range container.Ports {
			protocol := port.Protocol
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			if port.Name == p.Port.StrVal && protocol == c.protocol && port.ContainerPort == int32(c.port) {
				return true
			}
		}
	}
	return false
}
