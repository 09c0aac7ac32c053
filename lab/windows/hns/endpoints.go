package hns

import (
	"net/netip"
	"reflect"
	"slices"
)

// remoteEndpoint is the flag of endpoints of other hosts.
const remoteEndpoint = 1

func (o Object) remote() bool { return o.number("Flags")&remoteEndpoint != 0 }

func (o Object) addresses() []string {
	var list []string
	for _, c := range items(o["IpConfigurations"]) {
		if a := text(c, "IpAddress"); a != "" {
			list = append(list, a)
		}
	}
	return list
}

// ownAddresses returns the addresses of a local endpoint.
func (o Object) ownAddresses() []string {
	if o.remote() {
		return nil
	}
	return o.addresses()
}

// compartment returns the namespace of an endpoint; "" is the host's.
func (o Object) compartment() string {
	if in := Key(o.text("HostComputeNamespace")); in != hostDefaultID {
		return in
	}
	return ""
}

// addressKey returns the key of an address on a network.
func addressKey(network, address string) string { return Key(network) + " " + address }

func (o Object) places(k Kind) []string {
	if k != Endpoint {
		return nil
	}
	var list []string
	for _, a := range o.addresses() {
		list = append(list, addressKey(o.text("HostComputeNetwork"), a))
	}
	return list
}

// completeEndpoint assigns addresses unless the endpoint has some, and rejects addresses that it cannot have.
func (now *state) completeEndpoint(e Object) error {
	network, err := now.get(Network, e.text("HostComputeNetwork"))
	if err != nil {
		return err
	}
	if err := e.completeACLs(); err != nil {
		return err
	}
	if !e.remote() {
		if err := now.address(network, e); err != nil {
			return err
		}
	}
	for _, p := range e.places(Endpoint) {
		for _, other := range now.addresses[p] {
			if now.objects[Endpoint][other].remote() == e.remote() { // Windows permits one local and one remote endpoint
				return ObjectExists
			}
		}
	}
	if now.portTaken(e) {
		return PortExists
	}
	if e.text("MacAddress") == "" {
		e["MacAddress"] = now.freeMAC(network, e.id())
	}
	return nil
}

// address completes the address of a local endpoint from its network.
func (now *state) address(network, e Object) error {
	subnets := network.subnets()
	if len(subnets) == 0 {
		return nil
	}
	configurations := items(e["IpConfigurations"])
	if len(configurations) == 0 {
		configurations = []map[string]any{{}}
	}
	var complete []any
	gateway := ""
	for _, c := range configurations {
		var of subnet
		if text(c, "IpAddress") == "" {
			free, s, err := now.free(network)
			if err != nil {
				return err
			}
			of, c["IpAddress"] = s, free.String()
		} else if of = containing(subnets, text(c, "IpAddress")); !of.prefix.IsValid() {
			return InvalidIP
		}
		if Object(c).number("PrefixLength") == 0 {
			c["PrefixLength"] = float64(of.prefix.Bits())
		}
		gateway = of.gateway
		complete = append(complete, c)
	}
	e["IpConfigurations"] = complete
	if len(items(e["Routes"])) == 0 && gateway != "" {
		e["Routes"] = []any{map[string]any{"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"}}
	}
	return nil
}

// containing returns the subnet of an address other than the gateway; a subnet without a prefix if there is none.
func containing(subnets []subnet, address string) subnet {
	a, err := netip.ParseAddr(address)
	for _, s := range subnets {
		if err == nil && s.prefix.Contains(a) && address != s.gateway {
			return s
		}
	}
	return subnet{}
}

// portTaken reports whether another endpoint has a port of the host that an endpoint requests.
func (now *state) portTaken(e Object) bool {
	wanted := e.portMappings()
	if len(wanted) == 0 {
		return false
	}
	for _, other := range now.objects[Endpoint] {
		for _, port := range other.portMappings() {
			if slices.Contains(wanted, port) {
				return true
			}
		}
	}
	return false
}

type hostPort struct{ protocol, port int }

func (o Object) portMappings() []hostPort {
	var list []hostPort
	for _, p := range items(o["Policies"]) {
		if settings, ok := p["Settings"].(map[string]any); ok && text(p, "Type") == "PortMapping" {
			list = append(list, hostPort{Object(settings).number("Protocol"), Object(settings).number("ExternalPort")})
		}
	}
	return list
}

// modifyNamespace adds an endpoint or a container to a namespace, or removes it.
func (s *Store) modifyNamespace(now *state, namespace Object, r request2) error {
	resource := resourceOf("Container", r.Settings.ContainerId)
	if r.ResourceType == "Endpoint" {
		before, err := now.get(Endpoint, r.Settings.EndpointId)
		if err != nil {
			return err
		}
		resource = resourceOf("Endpoint", before.id())
		in := before.text("HostComputeNamespace")
		if r.RequestType == "Add" && in != "" && Key(in) != Key(namespace.id()) {
			return AlreadyAttached
		}
		endpoint := before.clone()
		endpoint["HostComputeNamespace"] = namespace.id()
		if r.RequestType == "Remove" {
			delete(endpoint, "HostComputeNamespace")
		}
		s.put(Endpoint, endpoint)
	}
	namespace.removeResource(resource)
	if r.RequestType == "Add" {
		have, _ := namespace["Resources"].([]any)
		namespace["Resources"] = append(have, resource)
	}
	s.put(Namespace, namespace)
	return nil
}

// leaveNamespace removes an endpoint from its namespace, if it is in one.
func (s *Store) leaveNamespace(now *state, endpoint Object) {
	before, err := now.get(Namespace, endpoint.text("HostComputeNamespace"))
	if err != nil {
		return
	}
	namespace := before.clone()
	namespace.removeResource(resourceOf("Endpoint", endpoint.id()))
	s.put(Namespace, namespace)
}

func resourceOf(kind, id string) map[string]any {
	return map[string]any{"Type": kind, "Data": map[string]any{"ID": id}}
}

// removeResource removes a resource from a namespace.
func (o Object) removeResource(resource map[string]any) {
	have, _ := o["Resources"].([]any)
	o["Resources"] = slices.DeleteFunc(have, func(r any) bool { return reflect.DeepEqual(r, any(resource)) })
}
