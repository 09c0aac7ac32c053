package kubeproxy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"
)

// labelProxyName marks Services that another proxy serves, whatever its value (KEP-2447). kube-proxy ignores them.
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// Service has the fields of a Service that affect its load balancers.
type Service struct {
	// ClusterIP is its IPv4 address; the zero Addr if kube-proxy creates no load balancers for it.
	ClusterIP netip.Addr
	Ports     []Port
	// ExternalIPs and Ingress are its IPv4 external addresses, and those of its load balancer in mode VIP.
	ExternalIPs, Ingress []netip.Addr
	// InternalLocal and ExternalLocal are its traffic policies.
	InternalLocal, ExternalLocal bool
	// PreserveDestination is kube-proxy's annotation preserve-destination.
	PreserveDestination bool
	// Disputed is true if kube-proxy before 1.36 ignores it: it has the label of headless Services, although it is not headless.
	Disputed bool
	// Addresses are all its IPv4 addresses, sorted, including those without load balancers.
	Addresses []netip.Addr
}

// Port is a port of a Service.
type Port struct {
	Name           string
	Protocol       corev1.Protocol
	Port, NodePort uint16
}

// EndpointSlice has the relevant fields of an EndpointSlice. One that kube-proxy ignores has no ports.
type EndpointSlice struct {
	Service   types.NamespacedName
	Ports     []EndpointPort
	Endpoints []Endpoint
	// Disputed is true if kube-proxy before 1.36 ignores it: it has the label of another proxy.
	Disputed bool
}

// EndpointPort is a port of all endpoints of an EndpointSlice.
type EndpointPort struct {
	Name     string
	Protocol corev1.Protocol
	Number   int32
}

// Endpoint is a back end.
type Endpoint struct {
	Address netip.Addr
	// Local means that its nodeName is this node.
	Local bool
	// Ready, Serving and Terminating are its conditions with their defaults.
	Ready, Serving, Terminating bool
}

// ReadService extracts the relevant fields of a Service.
func ReadService(o *corev1.Service) Service {
	s := Service{
		InternalLocal:       o.Spec.InternalTrafficPolicy != nil && *o.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
		ExternalLocal:       o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
		PreserveDestination: o.Annotations["preserve-destination"] == "true",
		ExternalIPs:         parse4(o.Spec.ExternalIPs),
	}
	var ingress, others []string
	for _, i := range o.Status.LoadBalancer.Ingress {
		if i.IPMode == nil || *i.IPMode == corev1.LoadBalancerIPModeVIP {
			ingress = append(ingress, i.IP)
		} else {
			others = append(others, i.IP)
		}
	}
	s.Ingress = parse4(ingress)
	others = append(append(others, o.Spec.ClusterIP), o.Spec.ClusterIPs...)
	s.Addresses = distinct(slices.Concat(s.ExternalIPs, s.Ingress, parse4(others)))
	for _, p := range o.Spec.Ports {
		s.Ports = append(s.Ports, Port{strings.Clone(p.Name), cmp.Or(p.Protocol, corev1.ProtocolTCP), uint16(p.Port), uint16(p.NodePort)})
	}
	_, s.Disputed = o.Labels[corev1.IsHeadlessService]
	_, isOthers := o.Labels[labelProxyName]
	if ip := parse4([]string{clusterIP4(o)}); len(ip) == 1 && !isOthers && o.Spec.Type != corev1.ServiceTypeExternalName {
		s.ClusterIP = ip[0]
	}
	return s
}

// clusterIP4 returns the IPv4 address: that of its family in spec.clusterIPs, which need not be the first.
func clusterIP4(o *corev1.Service) string {
	if o.Spec.ClusterIP == "" || o.Spec.ClusterIP == corev1.ClusterIPNone {
		return ""
	}
	if len(o.Spec.IPFamilies) == 0 {
		return o.Spec.ClusterIP
	}
	at := slices.Index(o.Spec.IPFamilies, corev1.IPv4Protocol)
	if at < 0 || at >= len(o.Spec.ClusterIPs) {
		return ""
	}
	return o.Spec.ClusterIPs[at]
}

// ReadEndpointSlice interprets an EndpointSlice as kube-proxy on a node does.
func ReadEndpointSlice(o *discoveryv1.EndpointSlice, node string) EndpointSlice {
	s := EndpointSlice{Service: types.NamespacedName{Namespace: o.Namespace, Name: o.Labels[discoveryv1.LabelServiceName]}}
	_, isHeadless := o.Labels[corev1.IsHeadlessService]
	_, s.Disputed = o.Labels[labelProxyName]
	if o.AddressType != discoveryv1.AddressTypeIPv4 {
		return s
	}
	for _, p := range o.Ports {
		if p.Name == nil || p.Port == nil || *p.Port == 0 || isHeadless || s.Service.Name == "" {
			continue
		}
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		s.Ports = append(s.Ports, EndpointPort{strings.Clone(*p.Name), protocol, *p.Port})
	}
	for _, e := range o.Endpoints {
		if len(e.Addresses) == 0 {
			continue
		}
		address := parse4(e.Addresses[:1]) // kube-proxy ignores the others
		if len(address) == 0 {
			continue
		}
		s.Endpoints = append(s.Endpoints, Endpoint{
			Address: address[0], Local: node != "" && e.NodeName != nil && *e.NodeName == node,
			Ready:       e.Conditions.Ready == nil || *e.Conditions.Ready,
			Serving:     e.Conditions.Serving == nil || *e.Conditions.Serving,
			Terminating: e.Conditions.Terminating != nil && *e.Conditions.Terminating,
		})
	}
	return s
}

// parse4 returns the IPv4 addresses of a list. The API server accepts leading zeros in old objects; kube-proxy reads them as decimals.
func parse4(texts []string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		if a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text)); ok && a.Unmap().Is4() {
			all = append(all, a.Unmap())
		}
	}
	return all
}
