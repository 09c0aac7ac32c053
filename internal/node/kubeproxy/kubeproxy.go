// Package kubeproxy computes which load balancers kube-proxy creates in the Host Network Service of a Windows node, by its own rules:
// pkg/proxy/winkernel, pkg/proxy/endpointslicecache.go and cmd/kube-proxy/app/server.go of Kubernetes 1.33 to 1.37. Where these versions differ,
// the result is uncertain. It does no I/O. lab/differential_test.go compares it with the real kube-proxy.exe of each version in the payload.
//
// It covers an overlay network with direct server return and IPv4, as WICD configures kube-proxy. Source ranges, session affinity and topology
// hints do not affect load balancers there: they are settings of Linux proxies or of the load balancer itself. The load balancers of health checks
// (winkernel.forwardHealthCheckVip, on GCP) are not computed; those that exist are left alone.
package kubeproxy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Frontend is the address and port of a Service. It is comparable.
type Frontend struct {
	// VIP is the zero Addr for a node port, which listens on all addresses of the host.
	VIP      netip.Addr
	Port     uint16
	Protocol hns.Protocol
}

// String implements fmt.Stringer: 10.96.0.10:53/UDP.
func (f Frontend) String() string {
	vip := "*"
	if f.VIP.IsValid() {
		vip = f.VIP.String()
	}
	protocol := "TCP"
	switch f.Protocol {
	case hns.UDP:
		protocol = "UDP"
	case hns.SCTP:
		protocol = "SCTP"
	}
	return fmt.Sprintf("%s:%d/%s", vip, f.Port, protocol)
}

// Balancer is a load balancer that kube-proxy creates.
type Balancer struct {
	Frontend
	// Backends are the sorted addresses of its endpoints, without duplicates.
	Backends []netip.Addr
	// Certain is false if its existence or back ends depend on more than the objects: on the version of kube-proxy, on the order in which it
	// reads contradictory EndpointSlices, or on a protocol that Windows may not support.
	Certain bool
}

// Presence holds the Host Network Service's endpoints in the pod network, by address: true for one of this host, false for a remote one.
type Presence map[netip.Addr]bool

// Balancers returns the load balancers of a Service with these EndpointSlices, in the order of its ports: those that kube-proxy creates, and
// uncertain ones that it may create. A Service or EndpointSlice that kube-proxy ignores has none.
func (s Service) Balancers(endpoints []EndpointSlice, onHost Presence) []Balancer {
	if !s.ClusterIP.IsValid() {
		return nil
	}
	var all []Balancer
	for _, p := range s.Ports {
		all = append(all, s.balancersOf(p, endpoints, onHost)...)
	}
	return all
}

func (s Service) balancersOf(p Port, endpoints []EndpointSlice, onHost Presence) []Balancer {
	merged, certain := merge(p, endpoints)
	certain = certain && !s.Disputed
	chosen, available := s.choose(merged)
	var cluster, local []netip.Addr
	for _, e := range chosen {
		isLocal, exists := onHost[e.Address]
		if !exists && e.Local {
			continue // kube-proxy creates endpoints of other hosts only
		}
		cluster = append(cluster, e.Address)
		if isLocal {
			local = append(local, e.Address)
		}
	}
	protocol, supported := protocolOf(p.Protocol)
	certain = certain && supported
	var all []Balancer
	add := func(vip netip.Addr, port uint16, isAvailable, onlyLocal bool) {
		backends := cluster
		if onlyLocal {
			backends = local
		}
		if !certain || isAvailable && len(backends) > 0 {
			all = append(all, Balancer{Frontend{vip, port, protocol}, distinct(backends), certain})
		}
	}
	add(s.ClusterIP, p.Port, true, s.InternalLocal)
	if p.NodePort > 0 {
		add(netip.Addr{}, p.NodePort, available, s.PreserveDestination || s.ExternalLocal)
	}
	for _, vip := range s.ExternalIPs {
		add(vip, p.Port, available, s.ExternalLocal)
	}
	for _, vip := range s.Ingress {
		add(vip, p.Port, true, s.PreserveDestination || s.ExternalLocal)
	}
	return all
}

// merge collects the endpoints of a port from all EndpointSlices. If two of them contain an endpoint with different conditions, the version of
// kube-proxy and the order of reading decide which applies; certain is then false.
func merge(p Port, endpoints []EndpointSlice) (merged []Endpoint, certain bool) {
	type target struct {
		address netip.Addr
		port    int32
	}
	certain = true
	found := map[target]Endpoint{}
	for _, slice := range endpoints {
		for _, port := range slice.Ports {
			if port.Name != p.Name || port.Protocol != p.Protocol {
				continue
			}
			certain = certain && !slice.Disputed
			for _, e := range slice.Endpoints {
				at := target{e.Address, port.Number}
				other, isTwice := found[at]
				certain = certain && (!isTwice || other == e)
				if !isTwice || other.Terminating && !e.Terminating || other.Terminating == e.Terminating && e.Ready && e.Serving {
					found[at] = e // the one that results in a load balancer
				}
			}
		}
	}
	for _, e := range found {
		merged = append(merged, e)
	}
	slices.SortFunc(merged, func(a, b Endpoint) int { return a.Address.Compare(b.Address) })
	return merged, certain
}

// choose returns the endpoints that receive connections. Only for a Service with a load balancer address, kube-proxy falls back to those that
// terminate, and to all if none serves; then available is false, and node ports and external addresses have no load balancer.
func (s Service) choose(all []Endpoint) (chosen []Endpoint, available bool) {
	allTerminate, noneServes := false, false
	if len(s.Ingress) > 0 {
		allTerminate, noneServes = s.allTerminate(all), s.noneServes(all)
	}
	for _, e := range all {
		switch {
		case s.InternalLocal && s.ExternalLocal && !e.Local:
		case !noneServes && (!allTerminate && !e.Ready || !e.Serving):
		default:
			chosen = append(chosen, e)
		}
	}
	return chosen, !allTerminate && !noneServes
}

func (s Service) allTerminate(all []Endpoint) bool {
	return !slices.ContainsFunc(all, func(e Endpoint) bool {
		return (!s.ExternalLocal || e.Local) && e.Ready && !e.Terminating
	})
}

func (s Service) noneServes(all []Endpoint) bool {
	return !slices.ContainsFunc(all, func(e Endpoint) bool { return (!s.ExternalLocal || e.Local) && e.Serving })
}

// protocolOf returns the number of a protocol; supported is false if Windows may refuse it.
func protocolOf(p corev1.Protocol) (number hns.Protocol, supported bool) {
	number, known := hns.ProtocolOf(string(cmp.Or(p, corev1.ProtocolTCP)))
	return number, known && number != hns.SCTP
}

func distinct(addresses []netip.Addr) []netip.Addr {
	sorted := slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare)
	return slices.Compact(sorted)
}
