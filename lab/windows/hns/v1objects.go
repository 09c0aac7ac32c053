package hns

import (
	"maps"
	"strings"
)

// Conversion of objects to the first generation of Windows' API.

func (c oldCall) oldNetwork(n Object) map[string]any {
	subnets := []any{}
	for _, ipam := range items(n["Ipams"]) {
		for _, s := range items(ipam["Subnets"]) {
			old := map[string]any{"AddressPrefix": text(s, "IpAddressPrefix")}
			if routes := items(s["Routes"]); len(routes) > 0 {
				old["GatewayAddress"] = text(routes[0], "NextHop")
			}
			if policies := oldPolicies(s["Policies"]); len(policies) > 0 {
				old["Policies"] = policies
			}
			subnets = append(subnets, old)
		}
	}
	old := map[string]any{
		"ID": n.id(), "Name": n.text("Name"), "Type": n.text("Type"), "Subnets": subnets, "State": n["State"],
		"Policies": oldPolicies(n["Policies"]), "MacPools": field(n, "MacPool", "Ranges"),
	}
	if c.Address != nil {
		old["ManagementIP"] = c.Address()
	}
	return old
}

// networkName reads each network once per call: thousands of endpoints are in a few networks.
func (c oldCall) networkName(id string) string {
	name, known := c.names[id]
	if !known {
		network, _ := c.Get(Network, id) // "" if there is none
		name = network.text("Name")
		c.names[id] = name
	}
	return name
}

func (c oldCall) oldEndpoint(e Object) map[string]any {
	old := map[string]any{
		"ID": e.id(), "Name": e.text("Name"), "VirtualNetwork": e.text("HostComputeNetwork"), "MacAddress": e.text("MacAddress"),
		"Policies": oldPolicies(e["Policies"]), "State": 1,
	}
	if name := c.networkName(e.text("HostComputeNetwork")); name != "" {
		old["VirtualNetworkName"] = name
	}
	if e.remote() {
		old["IsRemoteEndpoint"] = true
	}
	if in := e.text("HostComputeNamespace"); in != "" {
		old["State"] = 2
		old["Namespace"] = map[string]any{"ID": in}
	}
	if configurations := items(e["IpConfigurations"]); len(configurations) > 0 {
		old["IPAddress"] = text(configurations[0], "IpAddress")
		old["PrefixLength"] = configurations[0]["PrefixLength"]
	}
	if routes := items(e["Routes"]); len(routes) > 0 {
		old["GatewayAddress"] = text(routes[0], "NextHop")
	}
	if servers, _ := field(e, "Dns", "ServerList").([]any); len(servers) > 0 {
		old["DNSServerList"] = joined(servers)
	}
	return old
}

// oldPolicyList converts a load balancer.
func oldPolicyList(o Object) map[string]any {
	var references, policies []any
	for _, id := range o.targets() {
		references = append(references, "/endpoints/"+id)
	}
	for _, m := range items(o["PortMappings"]) {
		policies = append(policies, map[string]any{
			"Type": "ELB", "SourceVIP": o.text("SourceVIP"), "VIPs": o["FrontendVIPs"], "IsDSR": o.number("Flags")&1 != 0,
			"ILB": Object(m).number("Flags")&1 != 0, "Protocol": m["Protocol"], "InternalPort": m["InternalPort"], "ExternalPort": m["ExternalPort"],
		})
	}
	return map[string]any{"ID": o.id(), "References": references, "Policies": policies}
}

// policyNames returns policies and settings that have different names in the two generations, the first generation's name first.
func policyNames() []struct{ old, kind, oldField, field string } {
	return []struct{ old, kind, oldField, field string }{
		{"PA", "ProviderAddress", "PA", "ProviderAddress"},
		{"VSID", "VSID", "VSID", "IsolationId"},
		{"VLAN", "VLAN", "VLAN", "IsolationId"},
		{"OutBoundNAT", "OutBoundNAT", "ExceptionList", "Exceptions"},
		{"OutBoundNAT", "OutBoundNAT", "VIP", "VirtualIP"},
		{"ROUTE", "SDNRoute", "", ""},
		{"NAT", "PortMapping", "", ""},
	}
}

func oldPolicies(policies any) []any {
	list := []any{}
	for _, p := range items(policies) {
		settings, _ := p["Settings"].(map[string]any)
		old := maps.Clone(settings)
		if old == nil {
			old = map[string]any{}
		}
		old["Type"] = p["Type"]
		for _, n := range policyNames() {
			if n.kind == text(p, "Type") {
				old["Type"] = n.old
				if v, found := old[n.field]; found && n.field != n.oldField {
					delete(old, n.field)
					old[n.oldField] = v
				}
			}
		}
		list = append(list, old)
	}
	return list
}

func without(fields map[string]any, name string) map[string]any {
	rest := maps.Clone(fields)
	delete(rest, name)
	return rest
}

func joined(list []any) string {
	var texts []string
	for _, one := range list {
		text, _ := one.(string)
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}
