package kubeproxy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
)

const node = "win-1"

// Addresses of a local pod, a local pod without an endpoint, two remote pods, and this host.
const (
	podHere, podBare, podThere, podThere2, thisHost = "10.132.1.5", "10.132.1.6", "10.132.2.5", "10.132.2.6", "192.0.2.10"
)

func onHost() kubeproxy.Presence {
	return kubeproxy.Presence{netip.MustParseAddr(podHere): true, netip.MustParseAddr(podThere): false}
}

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// slice returns endpoints in the form address[@node][/conditions], with r, s and t for ready, serving and terminating, in upper case for false.
func slice(endpoints ...string) *discoveryv1.EndpointSlice {
	name, number, protocol := "web", int32(8080), corev1.ProtocolTCP
	o := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "s-1", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}},
	}
	for _, text := range endpoints {
		text, conditions, _ := strings.Cut(text, "/")
		address, on, isNamed := strings.Cut(text, "@")
		e := discoveryv1.Endpoint{Addresses: []string{address}}
		if isNamed {
			e.NodeName = &on
		}
		for _, c := range conditions {
			value := c > 'Z'
			switch c | 0x20 {
			case 'r':
				e.Conditions.Ready = &value
			case 's':
				e.Conditions.Serving = &value
			case 't':
				e.Conditions.Terminating = &value
			}
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	return o
}

func describe(all []kubeproxy.Balancer) string {
	var lines []string
	for _, b := range all {
		var addresses []string
		for _, a := range b.Backends {
			addresses = append(addresses, a.String())
		}
		line := b.Frontend.String() + " " + strings.Join(addresses, ",")
		if !b.Certain {
			line += " uncertain"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestBalancers(t *testing.T) {
	local, external := corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyLocal
	proxyMode := corev1.LoadBalancerIPModeProxy
	nodePort := func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080 }
	loadBalancer := func(s *corev1.Service) {
		nodePort(s)
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}, {Hostname: "lb.example"}, {IP: "2001:db8::1"}}
	}
	of := func(change func(*corev1.Service), more ...func(*corev1.Service)) *corev1.Service {
		s := service()
		for _, c := range append([]func(*corev1.Service){change}, more...) {
			c(s)
		}
		return s
	}
	with := func(change func(*discoveryv1.EndpointSlice), endpoints ...string) *discoveryv1.EndpointSlice {
		e := slice(endpoints...)
		change(e)
		return e
	}
	same := func(*corev1.Service) {}
	for name, test := range map[string]struct {
		service *corev1.Service
		slices  []*discoveryv1.EndpointSlice
		want    string
	}{
		"pods here and elsewhere": {of(same), []*discoveryv1.EndpointSlice{slice(podHere+"@"+node, podThere+"@other")}, "10.96.0.1:80/TCP 10.132.1.5,10.132.2.5"},
		"no endpoints":            {of(same), []*discoveryv1.EndpointSlice{slice()}, ""},
		"no EndpointSlice":        {of(same), nil, ""},
		"headless":                {of(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), []*discoveryv1.EndpointSlice{slice(podThere)}, ""},
		"an external name":        {of(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), []*discoveryv1.EndpointSlice{slice(podThere)}, ""},
		"IPv6 only": {of(func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = "fd00::1", []string{"fd00::1"}, []corev1.IPFamily{corev1.IPv6Protocol}
		}), []*discoveryv1.EndpointSlice{slice(podThere)}, ""},
		"IPv6 first": {of(func(s *corev1.Service) { // https://github.com/kubernetes/kubernetes/issues/115501
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "fd00::1", []string{"fd00::1", "10.96.0.1"}
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}), []*discoveryv1.EndpointSlice{slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5"},
		"an address with leading zeros": {of(func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs[0] = "10.096.000.001", "10.096.000.001" }), []*discoveryv1.EndpointSlice{slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5"},
		"another proxy's": {of(func(s *corev1.Service) {
			s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "mesh"}
		}), []*discoveryv1.EndpointSlice{slice(podThere)}, ""},
		"another proxy's without a name": {of(func(s *corev1.Service) { s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": ""} }), []*discoveryv1.EndpointSlice{slice(podThere)}, ""},
		"SCTP, which Windows may refuse": {of(func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolSCTP }), []*discoveryv1.EndpointSlice{with(func(e *discoveryv1.EndpointSlice) { p := corev1.ProtocolSCTP; e.Ports[0].Protocol = &p }, podThere)}, "10.96.0.1:80/SCTP 10.132.2.5 uncertain"},

		"the label of headless Services":                   {of(func(s *corev1.Service) { s.Labels = map[string]string{corev1.IsHeadlessService: ""} }), []*discoveryv1.EndpointSlice{slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5 uncertain"},
		"an EndpointSlice with the label of another proxy": {of(same), []*discoveryv1.EndpointSlice{with(func(e *discoveryv1.EndpointSlice) { e.Labels["service.kubernetes.io/service-proxy-name"] = "" }, podThere)}, "10.96.0.1:80/TCP 10.132.2.5 uncertain"},

		"a pod here without an endpoint":         {of(same), []*discoveryv1.EndpointSlice{slice(podBare + "@" + node)}, ""},
		"this host":                              {of(same), []*discoveryv1.EndpointSlice{slice(thisHost+"@"+node, podThere2)}, "10.96.0.1:80/TCP 10.132.2.6"}, // https://github.com/kubernetes/kubernetes/issues/126795
		"not ready":                              {of(same), []*discoveryv1.EndpointSlice{slice(podThere+"/RS", podThere2)}, "10.96.0.1:80/TCP 10.132.2.6"},
		"published although not ready":           {of(same), []*discoveryv1.EndpointSlice{slice(podThere + "/rS")}, ""}, // https://github.com/kubernetes/kubernetes/issues/58662
		"ending, and nothing else":               {of(same), []*discoveryv1.EndpointSlice{slice(podThere + "/Rst")}, ""},
		"two ports of one pod are one back end":  {of(same), []*discoveryv1.EndpointSlice{slice(podThere), with(func(e *discoveryv1.EndpointSlice) { n := int32(9090); e.Ports[0].Port = &n }, podThere)}, "10.96.0.1:80/TCP 10.132.2.5"},
		"in two EndpointSlices, ending in one":   {of(same), []*discoveryv1.EndpointSlice{slice(podThere + "/Rst"), slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5 uncertain"},
		"in two EndpointSlices alike":            {of(same), []*discoveryv1.EndpointSlice{slice(podThere), slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5"},
		"in two EndpointSlices that contradict":  {of(same), []*discoveryv1.EndpointSlice{slice(podThere+"/RS", podThere2), slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5,10.132.2.6 uncertain"},
		"a port of another name":                 {of(same), []*discoveryv1.EndpointSlice{with(func(e *discoveryv1.EndpointSlice) { n := "other"; e.Ports[0].Name = &n }, podThere)}, ""},
		"a port of another protocol":             {of(same), []*discoveryv1.EndpointSlice{with(func(e *discoveryv1.EndpointSlice) { p := corev1.ProtocolUDP; e.Ports[0].Protocol = &p }, podThere)}, ""}, // https://kubernetes.io/docs/concepts/services-networking/service/#services-without-selectors
		"a port without number":                  {of(same), []*discoveryv1.EndpointSlice{with(func(e *discoveryv1.EndpointSlice) { e.Ports[0].Port = nil }, podThere)}, ""},                             // https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/
		"an EndpointSlice of a headless Service": {of(same), []*discoveryv1.EndpointSlice{with(func(e *discoveryv1.EndpointSlice) { e.Labels[corev1.IsHeadlessService] = "" }, podThere)}, ""},
		"an EndpointSlice of IPv6":               {of(same), []*discoveryv1.EndpointSlice{with(func(e *discoveryv1.EndpointSlice) { e.AddressType = discoveryv1.AddressTypeIPv6 }, podThere)}, ""},

		"internal traffic policy Local":        {of(func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &local }), []*discoveryv1.EndpointSlice{slice(podHere+"@"+node, podThere)}, "10.96.0.1:80/TCP 10.132.1.5"},
		"internal traffic finds nothing here":  {of(func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &local }), []*discoveryv1.EndpointSlice{slice(podThere)}, ""},
		"a node port":                          {of(nodePort), []*discoveryv1.EndpointSlice{slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5; *:30080/TCP 10.132.2.5"},
		"a node port, external traffic local":  {of(nodePort, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = external }), []*discoveryv1.EndpointSlice{slice(podHere+"@"+node, podThere)}, "10.96.0.1:80/TCP 10.132.1.5,10.132.2.5; *:30080/TCP 10.132.1.5"},
		"a node port, all traffic local":       {of(nodePort, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy, s.Spec.InternalTrafficPolicy = external, &local }), []*discoveryv1.EndpointSlice{slice(podThere)}, ""},
		"a node port of the destination":       {of(nodePort, func(s *corev1.Service) { s.Annotations = map[string]string{"preserve-destination": "true"} }), []*discoveryv1.EndpointSlice{slice(podHere+"@"+node, podThere)}, "10.96.0.1:80/TCP 10.132.1.5,10.132.2.5; *:30080/TCP 10.132.1.5"},
		"external addresses":                   {of(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.51.100.1", "2001:db8::1"} }), []*discoveryv1.EndpointSlice{slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5; 198.51.100.1:80/TCP 10.132.2.5"},
		"the address of a load balancer":       {of(loadBalancer), []*discoveryv1.EndpointSlice{slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5; *:30080/TCP 10.132.2.5; 203.0.113.1:80/TCP 10.132.2.5"},
		"a load balancer that is a proxy":      {of(loadBalancer, func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IPMode = &proxyMode }), []*discoveryv1.EndpointSlice{slice(podThere)}, "10.96.0.1:80/TCP 10.132.2.5; *:30080/TCP 10.132.2.5"},
		"a load balancer whose pods all end":   {of(loadBalancer), []*discoveryv1.EndpointSlice{slice(podThere + "/Rst")}, "10.96.0.1:80/TCP 10.132.2.5; 203.0.113.1:80/TCP 10.132.2.5"},
		"a load balancer whose pods all fail":  {of(loadBalancer), []*discoveryv1.EndpointSlice{slice(podThere + "/RST")}, "10.96.0.1:80/TCP 10.132.2.5; 203.0.113.1:80/TCP 10.132.2.5"},
		"a load balancer with one that serves": {of(loadBalancer), []*discoveryv1.EndpointSlice{slice(podThere+"/Rst", podThere2)}, "10.96.0.1:80/TCP 10.132.2.6; *:30080/TCP 10.132.2.6; 203.0.113.1:80/TCP 10.132.2.6"},
		"source ranges, affinity and a health check change nothing": {of(loadBalancer, func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges, s.Spec.SessionAffinity = []string{"203.0.113.0/24"}, corev1.ServiceAffinityClientIP
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = external, 32000
		}), []*discoveryv1.EndpointSlice{slice(podHere + "@" + node)}, "10.96.0.1:80/TCP 10.132.1.5; *:30080/TCP 10.132.1.5; 203.0.113.1:80/TCP 10.132.1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			var endpoints []kubeproxy.EndpointSlice
			for _, e := range test.slices {
				endpoints = append(endpoints, kubeproxy.ReadEndpointSlice(e, node))
			}
			if got := describe(kubeproxy.ReadService(test.service).Balancers(endpoints, onHost())); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestEndpointSliceOrderDoesNotMatter expects the same result in any order, unless it is uncertain.
func TestEndpointSliceOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := service()
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
		if random.IntN(2) == 0 {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
		}
		var endpoints []kubeproxy.EndpointSlice
		for range 3 {
			var texts []string
			for range random.IntN(4) {
				text := fmt.Sprintf("10.132.2.%d", random.IntN(4))
				for _, c := range []string{"r", "s", "t"} {
					if i := random.IntN(3); i > 0 {
						text += "/"[:min(1, 1-strings.Count(text, "/"))] + []string{"", c, strings.ToUpper(c)}[i]
					}
				}
				texts = append(texts, text)
			}
			endpoints = append(endpoints, kubeproxy.ReadEndpointSlice(slice(texts...), node))
		}
		read := kubeproxy.ReadService(s)
		first := read.Balancers(endpoints, onHost())
		slices.Reverse(endpoints)
		if got, want := describe(read.Balancers(endpoints, onHost())), describe(first); got != want && !strings.Contains(got+want, "uncertain") {
			t.Fatalf("seed %d: in reverse order %s, before %s", seed, got, want)
		}
	}
}

// FuzzRead reads arbitrary Services and EndpointSlices, which users of any namespace may write.
func FuzzRead(f *testing.F) {
	for _, o := range []any{service(), slice(podHere+"@"+node, podThere+"/Rst")} {
		b, _ := json.Marshal(o)
		f.Add(b, b)
	}
	f.Add([]byte(`{"spec":{"clusterIP":"10.96.0.1","ipFamilies":["IPv6","IPv4"],"ports":[{"port":-1,"nodePort":70000}]}}`), []byte(`{"addressType":"IPv4","endpoints":[{},{"addresses":["x"]}],"ports":[{}]}`))
	f.Fuzz(func(t *testing.T, service, slice []byte) {
		var s corev1.Service
		var e discoveryv1.EndpointSlice
		if json.Unmarshal(service, &s) != nil || json.Unmarshal(slice, &e) != nil {
			return
		}
		read, endpoints := kubeproxy.ReadService(&s), kubeproxy.ReadEndpointSlice(&e, node)
		if !reflect.DeepEqual(read, kubeproxy.ReadService(&s)) || !reflect.DeepEqual(endpoints, kubeproxy.ReadEndpointSlice(&e, node)) {
			t.Error("the same object reads differently")
		}
		all := read.Balancers([]kubeproxy.EndpointSlice{endpoints}, onHost())
		if most := len(s.Spec.Ports) * (2 + len(s.Spec.ExternalIPs) + len(s.Status.LoadBalancer.Ingress)); len(all) > most {
			t.Errorf("%d load balancers, at most %d are possible", len(all), most)
		}
		for _, b := range all {
			if b.Certain && len(b.Backends) == 0 || !slices.IsSortedFunc(b.Backends, netip.Addr.Compare) || b.VIP.IsValid() && !slices.Contains(read.Addresses, b.VIP) {
				t.Errorf("load balancer %+v of addresses %v", b, read.Addresses)
			}
		}
	})
}
