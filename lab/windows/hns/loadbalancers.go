package hns

import (
	"fmt"
	"slices"
)

// frontends returns the combinations of addresses and ports of a load balancer. Without an address it uses ports of the host.
func (o Object) frontends(k Kind) []string {
	if k != LoadBalancer {
		return nil
	}
	addresses, _ := o["FrontendVIPs"].([]any)
	if len(addresses) == 0 {
		addresses = []any{""}
	}
	var list []string
	for _, port := range items(o["PortMappings"]) {
		for _, a := range addresses {
			list = append(list, fmt.Sprintf("%v %d %d", a, Object(port).number("Protocol"), Object(port).number("ExternalPort")))
		}
	}
	return list
}

// targets returns the endpoints of a load balancer.
func (o Object) targets() []string {
	list, _ := o["HostComputeEndpoints"].([]any)
	var ids []string
	for _, id := range list {
		ids = append(ids, Key(fmt.Sprint(id)))
	}
	slices.Sort(ids)
	return ids
}

// checkLoadBalancer rejects a load balancer that conflicts with another. For an identical one, it returns Exists, which kube-proxy
// gets when it creates a load balancer that was never removed.
func (now *state) checkLoadBalancer(lb Object) error {
	if len(items(lb["PortMappings"])) == 0 {
		return InvalidPolicy
	}
	for _, id := range lb.targets() {
		if _, err := now.get(Endpoint, id); err != nil {
			return err
		}
	}
	if isNew := now.objects[LoadBalancer][Key(lb.id())] == nil; isNew && !now.quirks.HasPorts(len(now.objects[LoadBalancer])) {
		return PortExists
	}
	for _, f := range lb.frontends(LoadBalancer) {
		id, taken := now.frontends[f]
		if !taken || id == Key(lb.id()) {
			continue
		}
		if other := now.objects[LoadBalancer][id]; slices.Equal(other.targets(), lb.targets()) {
			return Exists
		}
		return PortExists
	}
	return nil
}
