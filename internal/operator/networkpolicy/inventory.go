package networkpolicy

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// staticUID matches UIDs of static pods: hashes, or UUIDs that their files contain.
var staticUID = regexp.MustCompile(`^[0-9a-f-]{16,128}$`)

// inventory has the pods and namespaces of the cluster in the forms in which policies need them.
type inventory struct {
	pods      []pod // by namespace and name
	podLabels index
	// spans are the pods of each namespace. Those of a namespace whose object is missing are there, too, but no selector of namespaces
	// matches it.
	spans           map[string]span
	namespaces      []string
	namespaceLabels index
	addresses       []placed // by address
	// everyPod has the addresses of all pods, and those that their nodes may give to pods.
	everyPod   []policyset.Range
	namedPorts map[portName][]int
}

// pod is a pod that runs or will run.
type pod struct {
	name, uid string
	ports     []policyset.NamedPort
	// isListed is true for pods in sets: those on Windows nodes, with a network of their own.
	isListed bool
}

// span is a range of indexes of pods; end is not included.
type span struct{ first, end int }

// placed is an address of a pod, as a number.
type placed struct {
	address uint32
	pod     int
}

type portName struct {
	name     string
	protocol hns.Protocol
}

func newInventory(c Cluster) *inventory {
	running := slices.DeleteFunc(slices.Clone(c.Pods), func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	slices.SortFunc(running, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	s := &inventory{spans: map[string]span{}, namedPorts: map[portName][]int{}}
	podLabels := make([]map[string]string, len(running))
	for i, p := range running {
		podLabels[i] = p.Labels
		s.addPod(p, c.Nodes[p.Spec.NodeName])
	}
	s.podLabels = newIndex(podLabels)
	slices.SortFunc(s.addresses, func(a, b placed) int { return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(a.pod, b.pod)) })
	for i, a := range s.addresses {
		for _, port := range s.pods[a.pod].ports {
			name := portName{port.Name, port.Protocol}
			s.namedPorts[name] = append(s.namedPorts[name], i)
		}
	}
	var namespaceLabels []map[string]string
	for _, n := range c.Namespaces {
		s.namespaces = append(s.namespaces, n.Name)
		namespaceLabels = append(namespaceLabels, n.Labels)
	}
	s.namespaceLabels = newIndex(namespaceLabels)
	s.everyPod = everyPod(s.addresses, c.Nodes, running)
	return s
}

// Addresses at the beginning and at the end of a node's subnet that networks use for the node itself: the address of the subnet, routers,
// management ports, endpoints of the host, and the broadcast address.
const (
	reservedFirst = 4
	reservedLast  = 2
)

// everyPod returns the addresses of all pods, and those that nodes may give to pods: their subnets, without what may be the node's own. A
// node with a pod on its network has a peer at all of its own addresses.
func everyPod(addresses []placed, nodes map[string]Node, running []*corev1.Pod) []policyset.Range {
	isPeer := map[string]bool{}
	for _, p := range running {
		isPeer[p.Spec.NodeName] = isPeer[p.Spec.NodeName] || p.Spec.HostNetwork
	}
	var ranges []policyset.Range
	for _, a := range addresses {
		ranges = append(ranges, policyset.Range{First: a.address, Last: a.address})
	}
	for name, node := range nodes {
		if !node.Pods.IsValid() || !node.Pods.Addr().Is4() {
			continue
		}
		subnet := policyset.RangeOf(node.Pods)
		switch {
		case isPeer[name]:
			ranges = append(ranges, subnet)
		case subnet.Last-subnet.First >= reservedFirst+reservedLast:
			var own []policyset.Range
			for _, a := range node.Addresses {
				if a = a.Unmap(); a.Is4() {
					own = append(own, policyset.Range{First: policyset.Number(a), Last: policyset.Number(a)})
				}
			}
			ranges = append(ranges, policyset.Subtract(policyset.Range{First: subnet.First + reservedFirst, Last: subnet.Last - reservedLast}, own)...)
		}
	}
	return policyset.Union(ranges)
}

func (s *inventory) addPod(p *corev1.Pod, node Node) {
	i := len(s.pods)
	s.pods = append(s.pods, pod{
		name: p.Name, uid: UIDOf(p), ports: namedPorts(p), isListed: node.Windows && !p.Spec.HostNetwork,
	})
	pods, known := s.spans[p.Namespace]
	if !known {
		pods.first = i
	}
	s.spans[p.Namespace] = span{pods.first, i + 1}
	for _, address := range addressesOf(p, node) {
		s.addresses = append(s.addresses, placed{address, i})
	}
}

// UIDOf returns the UID of a pod on its node, as in sets. That of a static pod is an annotation of its mirror in the API
// (k8s.io/kubernetes, pkg/kubelet/pod/mirror_client.go).
func UIDOf(p *corev1.Pod) string {
	if uid := p.Annotations[corev1.MirrorPodAnnotationKey]; staticUID.MatchString(uid) {
		return uid
	}
	return string(p.UID)
}

// addressesOf returns the IPv4 addresses from which connections of a pod arrive.
func addressesOf(p *corev1.Pod, node Node) []uint32 {
	texts := []string{p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	var addresses []netip.Addr
	if p.Spec.HostNetwork {
		texts = append(texts, p.Status.HostIP)
		for _, ip := range p.Status.HostIPs {
			texts = append(texts, ip.IP)
		}
		addresses = append(addresses, node.Addresses...)
	}
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	var numbers []uint32
	for _, a := range addresses {
		if a = a.Unmap(); a.Is4() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() {
			numbers = append(numbers, policyset.Number(a))
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// namedPorts returns the named ports of the containers that run beside each other: containers, and init containers that are sidecars.
func namedPorts(p *corev1.Pod) []policyset.NamedPort {
	containers := slices.Clone(p.Spec.Containers)
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	var ports []policyset.NamedPort
	for _, c := range containers {
		for _, port := range c.Ports {
			protocol, known := protocolOf(&port.Protocol)
			isNew := !slices.ContainsFunc(ports, func(n policyset.NamedPort) bool { return n.Name == port.Name && n.Protocol == protocol })
			if port.Name != "" && known && isNew && isPort(port.ContainerPort) {
				ports = append(ports, policyset.NamedPort{Name: port.Name, Protocol: protocol, Port: uint16(port.ContainerPort)})
			}
		}
	}
	slices.SortFunc(ports, policyset.NamedPort.Compare)
	return ports
}

func isPort(n int32) bool { return n > 0 && n < 1<<16 }

// protocolOf returns the protocol of a port, which is TCP by default.
func protocolOf(p *corev1.Protocol) (protocol hns.Protocol, known bool) {
	if p == nil {
		return hns.TCP, true
	}
	return hns.ProtocolOf(string(cmp.Or(*p, corev1.ProtocolTCP)))
}

// in returns the pods of a namespace.
func (s *inventory) in(namespace string) bitset {
	pods := newBitset(len(s.pods))
	pods.addRange(s.spans[namespace].first, s.spans[namespace].end)
	return pods
}

// inSelected returns the pods of all namespaces that a selector selects.
func (s *inventory) inSelected(selector labels.Selector) bitset {
	pods := newBitset(len(s.pods))
	for i := range s.namespaceLabels.match(selector).all() {
		pods.addRange(s.spans[s.namespaces[i]].first, s.spans[s.namespaces[i]].end)
	}
	return pods
}

// addressesIn returns the addresses of pods, in order.
func (s *inventory) addressesIn(pods bitset) []policyset.Range {
	var ranges []policyset.Range
	for _, a := range s.addresses {
		if pods.has(a.pod) {
			ranges = append(ranges, policyset.Range{First: a.address, Last: a.address})
		}
	}
	return policyset.Union(ranges)
}
