//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// create generates a Service and its EndpointSlices, and returns a function that creates them.
func (d differential) create(number int) func(context.Context) error {
	s := d.service(number)
	var endpoints []*discoveryv1.EndpointSlice
	for i := range d.random.IntN(3) {
		endpoints = append(endpoints, d.slice(s, number, i))
	}
	return func(ctx context.Context) error {
		created, err := d.client.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			created.Status.LoadBalancer = s.Status.LoadBalancer
			if _, err := d.client.CoreV1().Services("default").UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		for _, e := range endpoints {
			if _, err := d.client.DiscoveryV1().EndpointSlices("default").Create(ctx, e, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
}

// change generates a change of an existing Service: other endpoints, other settings, or its deletion.
func (d differential) change(number int) func(context.Context) error {
	name, replaced := fmt.Sprintf("s-%03d", number), d.service(number)
	endpoints := []*discoveryv1.EndpointSlice{d.slice(replaced, number, 0), d.slice(replaced, number, 1)}[:d.random.IntN(3)]
	kind := d.random.IntN(6)
	return func(ctx context.Context) error {
		slices := d.client.DiscoveryV1().EndpointSlices("default")
		switch kind {
		case 0:
			return d.client.CoreV1().Services("default").Delete(ctx, name, metav1.DeleteOptions{})
		case 1:
			s, err := d.client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			s.Labels, s.Spec.InternalTrafficPolicy = replaced.Labels, replaced.Spec.InternalTrafficPolicy
			s.Spec.ExternalIPs, s.Spec.SessionAffinity = replaced.Spec.ExternalIPs, replaced.Spec.SessionAffinity
			_, err = d.client.CoreV1().Services("default").Update(ctx, s, metav1.UpdateOptions{})
			return err
		}
		err := slices.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
		for _, e := range endpoints {
			if err == nil {
				_, err = slices.Create(ctx, e, metav1.CreateOptions{})
			}
		}
		return err
	}
}

func (d differential) service(number int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%03d", number), Labels: map[string]string{}, Annotations: map[string]string{}}}
	d.families(s)
	if d.chance(8) {
		s.Labels["service.kubernetes.io/service-proxy-name"] = d.pick("", "other")
	}
	if d.chance(12) {
		s.Labels[corev1.IsHeadlessService] = ""
	}
	if d.chance(12) {
		s.Annotations[d.pick("preserve-destination", "winProxyOptimization")] = d.pick("true", "disabled")
	}
	if d.chance(5) {
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	switch d.random.IntN(5) {
	case 0:
		s.Spec.Type = corev1.ServiceTypeNodePort
	case 1:
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("198.51.100.%d", 1+number)}}
		if d.chance(4) {
			s.Status.LoadBalancer.Ingress[0].IPMode = new(corev1.LoadBalancerIPModeProxy)
		}
		if d.chance(4) {
			s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24"}
		}
	}
	if s.Spec.Type != "" && d.chance(2) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if d.chance(6) {
		s.Spec.ExternalIPs = []string{fmt.Sprintf("192.0.2.%d", 1+d.random.IntN(250))}
	}
	if d.chance(6) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}
	s.Spec.PublishNotReadyAddresses = d.chance(8)
	s.Spec.Ports = []corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP}}
	if d.chance(4) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
	}
	if d.chance(10) {
		s.Spec.Ports[0].Protocol = corev1.ProtocolSCTP
	}
	return s
}

func (d differential) families(s *corev1.Service) {
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	switch d.random.IntN(6) {
	case 0:
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = new(corev1.IPFamilyPolicyRequireDualStack), []corev1.IPFamily{six, four}
	case 1:
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = new(corev1.IPFamilyPolicyRequireDualStack), []corev1.IPFamily{four, six}
	case 2:
		s.Spec.IPFamilies = []corev1.IPFamily{six}
	}
}

func (d differential) slice(s *corev1.Service, service, number int) *discoveryv1.EndpointSlice {
	e := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.Name, number), Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if d.chance(12) {
		e.Labels[d.pick(corev1.IsHeadlessService, "service.kubernetes.io/service-proxy-name")] = ""
	}
	for _, p := range s.Spec.Ports {
		port := discoveryv1.EndpointPort{Name: new(p.Name), Port: new(int32(8080)), Protocol: new(p.Protocol)}
		switch d.random.IntN(14) {
		case 0:
			port.Port = nil
		case 1:
			port.Protocol = new(corev1.ProtocolUDP)
		case 2:
			port.Name = new("other")
		case 3:
			port.Port = new(int32(9090))
		}
		if !slices.ContainsFunc(e.Ports, func(other discoveryv1.EndpointPort) bool { return *other.Name == *port.Name }) {
			e.Ports = append(e.Ports, port)
		}
	}
	for i := range 1 + d.random.IntN(2) {
		end := d.endpoint(service, i)
		if !slices.ContainsFunc(e.Endpoints, func(other discoveryv1.Endpoint) bool { return other.Addresses[0] == end.Addresses[0] }) {
			e.Endpoints = append(e.Endpoints, end)
		}
	}
	return e
}

func (d differential) endpoint(service, number int) discoveryv1.Endpoint {
	end := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: d.randomCondition(), Serving: d.randomCondition(), Terminating: d.randomCondition()}}
	address, node := fmt.Sprintf("10.132.%d.%d", 8+service/100, 2+(service*2+number)%250), "other"
	switch d.random.IntN(6) {
	case 0:
		address, node = d.host.Address(), d.host.Name()
	case 1:
		address, node = podHere, d.host.Name()
	case 2:
		address, node = "10.132.7.99", d.host.Name() // a pod of this host without an endpoint
	case 3:
		address, node = fmt.Sprintf("203.0.113.%d", 1+service%200), ""
	}
	end.Addresses = []string{address}
	if node != "" {
		end.NodeName = &node
	}
	return end
}
