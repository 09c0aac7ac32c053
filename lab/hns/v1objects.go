package hns

import (
	"maps"
	"strings"
)

// Conversion of objects between the two generations of Windows' API.

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

func newNetwork(old Object) Object {
	var subnets []any
	for _, s := range items(old["Subnets"]) {
		subnet := map[string]any{"IpAddressPrefix": text(s, "AddressPrefix"), "Policies": newPolicies(s["Policies"])}
		if gateway := text(s, "GatewayAddress"); gateway != "" {
			subnet["Routes"] = []any{map[string]any{"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"}}
		}
		subnets = append(subnets, subnet)
	}
	n := Object{
		"Name": old["Name"], "Type": old["Type"], "Policies": newPolicies(old["Policies"]),
		"Ipams": []any{map[string]any{"Type": "Static", "Subnets": subnets}},
	}
	if pools := items(old["MacPools"]); len(pools) > 0 {
		n["MacPool"] = map[string]any{"Ranges": old["MacPools"]}
	}
	if adapter := old.text("NetworkAdapterName"); adapter != "" {
		n.addPolicy("NetAdapterName", map[string]any{"NetworkAdapterName": adapter})
	}
	return n
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

func newEndpoint(old Object) Object {
	e := Object{
		"Name": old["Name"], "HostComputeNetwork": old["VirtualNetwork"], "MacAddress": old["MacAddress"], "Policies": newPolicies(old["Policies"]),
	}
	if address := old.text("IPAddress"); address != "" {
		configuration := map[string]any{"IpAddress": address}
		if length := old.number("PrefixLength"); length > 0 {
			configuration["PrefixLength"] = length
		}
		e["IpConfigurations"] = []any{configuration}
	}
	if gateway := old.text("GatewayAddress"); gateway != "" {
		e["Routes"] = []any{map[string]any{"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"}}
	}
	if servers := old.text("DNSServerList"); servers != "" {
		e["Dns"] = map[string]any{"ServerList": strings.Split(servers, ",")}
	}
	if remote, _ := old["IsRemoteEndpoint"].(bool); remote {
		e["Flags"] = remoteEndpoint
	}
	return e
}

func oldNamespace(n Object) map[string]any {
	old := map[string]any{"ID": n.id(), "CompartmentId": n["NamespaceId"]}
	if n.text("Type") == "HostDefault" {
		old["IsDefault"] = true
	}
	var resources []any
	for _, r := range items(n["Resources"]) {
		resources = append(resources, map[string]any{"Type": r["Type"], "Data": map[string]any{"Id": field(r, "Data", "ID")}})
	}
	if len(resources) > 0 {
		old["ResourceList"] = resources
	}
	return old
}

func newNamespace(old Object) Object {
	if isDefault, _ := old["IsDefault"].(bool); isDefault {
		return Object{"Type": "HostDefault"}
	}
	return Object{"Type": "Host"}
}

// oldPolicyList converts a load balancer or a route.
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
	for _, setting := range items(o["Setting"]) {
		policy := maps.Clone(setting)
		policy["Type"] = "ROUTE"
		policies = append(policies, policy)
	}
	return map[string]any{"ID": o.id(), "References": references, "Policies": policies}
}

func newPolicyList(old Object) (Kind, Object, error) {
	var endpoints []any
	references, _ := old["References"].([]any)
	for _, r := range references {
		reference, _ := r.(string)
		endpoints = append(endpoints, strings.TrimPrefix(reference, "/endpoints/"))
	}
	policies := items(old["Policies"])
	if len(policies) != 1 {
		return "", nil, InvalidPolicy
	}
	p := policies[0]
	isSet := func(name string) int {
		if set, _ := p[name].(bool); set {
			return 1
		}
		return 0
	}
	switch text(p, "Type") {
	case "ROUTE":
		return Route, Object{"HostComputeEndpoints": endpoints, "Setting": []any{without(p, "Type")}}, nil
	case "ELB":
		mapping := map[string]any{
			"Protocol": p["Protocol"], "InternalPort": p["InternalPort"], "ExternalPort": p["ExternalPort"], "Flags": isSet("ILB"),
		}
		return LoadBalancer, Object{
			"HostComputeEndpoints": endpoints, "SourceVIP": p["SourceVIP"], "FrontendVIPs": p["VIPs"], "Flags": isSet("IsDSR"), "PortMappings": []any{mapping},
		}, nil
	}
	return "", nil, InvalidPolicy
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

// newPolicies converts policies of the first generation, whose settings are beside their type.
func newPolicies(old any) []any {
	list := []any{}
	for _, p := range items(old) {
		if settings, nested := p["Settings"]; nested {
			list = append(list, map[string]any{"Type": p["Type"], "Settings": settings})
			continue
		}
		kind, settings := text(p, "Type"), without(p, "Type")
		for _, n := range policyNames() {
			if n.old == text(p, "Type") {
				kind = n.kind
				rename(settings, n.oldField, n.field)
			}
		}
		list = append(list, map[string]any{"Type": kind, "Settings": settings})
	}
	return list
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
				rename(old, n.field, n.oldField)
			}
		}
		list = append(list, old)
	}
	return list
}

func rename(fields map[string]any, from, to string) {
	if v, found := fields[from]; found && from != to {
		delete(fields, from)
		fields[to] = v
	}
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
