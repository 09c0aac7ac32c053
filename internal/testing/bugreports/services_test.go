package bugreports

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
)

// serviceReports are reports about Services for which nodes must expect exactly the load balancers that kube-proxy creates: an unexpected one
// was removed from its Service, and waiting for a missing one restarted kube-proxy.
func serviceReports() []report {
	return []report{{
		link:  "https://github.com/kubernetes/kubernetes/issues/115501",
		input: "a Service of both families with its IPv6 address first",
		want:  "10.96.1.77:80/TCP to 10.132.2.5",
		outcome: balancers(func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "fd00:10:96::a", []string{"fd00:10:96::a", "10.96.1.77"}
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}, nil),
	}, {
		link:  "https://github.com/kubernetes/kubernetes/issues/58662",
		input: "a Service that publishes pods which are not ready, and has no other: a sealed Vault",
		want:  "none",
		outcome: balancers(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }, func(e *discoveryv1.EndpointSlice) {
			e.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(true), Serving: new(false)}
		}),
	}, {
		link:  "https://github.com/kubernetes/kubernetes/issues/126795",
		input: "a Service of HostProcess pods, of which the only one is on this node",
		want:  "none",
		outcome: balancers(nil, func(e *discoveryv1.EndpointSlice) {
			e.Endpoints[0].Addresses, e.Endpoints[0].NodeName = []string{"192.0.2.10"}, new("win-1")
		}),
	}, {
		link:    "https://kubernetes.io/docs/concepts/services-networking/service/#services-without-selectors",
		input:   "an EndpointSlice that was written by hand, for another protocol than the Service's",
		want:    "none",
		outcome: balancers(nil, func(e *discoveryv1.EndpointSlice) { e.Ports[0].Protocol = new(corev1.ProtocolUDP) }),
	}, {
		link:    "https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/",
		input:   "an EndpointSlice that was written by hand, without a port number",
		want:    "none",
		outcome: balancers(nil, func(e *discoveryv1.EndpointSlice) { e.Ports[0].Port = nil }),
	}}
}

// balancers returns the load balancers that node win-1 must have for a changed Service with one pod on another node.
func balancers(service func(*corev1.Service), slice func(*discoveryv1.EndpointSlice)) func(*testing.T) string {
	return func(*testing.T) string {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: corev1.ServiceSpec{
				ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				Ports: []corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP}},
			},
		}
		e := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.132.2.5"}, NodeName: new("win-2")}},
		}
		if service != nil {
			service(s)
		}
		if slice != nil {
			slice(e)
		}
		onHost := kubeproxy.Presence{netip.MustParseAddr("10.132.2.5"): false}
		var all []string
		for _, b := range kubeproxy.ReadService(s).Balancers([]kubeproxy.EndpointSlice{kubeproxy.ReadEndpointSlice(e, "win-1")}, onHost) {
			all = append(all, fmt.Sprintf("%s to %s", b.Frontend, strings.Trim(fmt.Sprint(b.Backends), "[]")))
		}
		if len(all) == 0 {
			return "none"
		}
		return strings.Join(all, "; ")
	}
}
