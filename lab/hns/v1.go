package hns

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Call answers a call of the first generation of Windows' API (HNSCall of vmcompute.dll): REST, with JSON as in
// hcsshim's internal/hns. Objects are made by the second generation; here they are read and deleted. managementIP is
// the host's own address.
func (s Store) Call(method, path, managementIP string) string {
	output, err := s.answer(method, strings.Split(strings.Trim(path, "/"), "/"), managementIP)
	if err != nil {
		return encode(map[string]any{"Success": false, "Error": err.Error()})
	}
	return encode(map[string]any{"Success": true, "Output": output})
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return `{"Success":false,"Error":"encoding the answer failed"}`
	}
	return string(raw)
}

func (s Store) answer(method string, path []string, managementIP string) (any, error) {
	collection, id := path[0], ""
	if len(path) > 1 {
		id = path[1]
	}
	view := func(o Object) any { return oldNetwork(o, managementIP) }
	kind := Network
	switch {
	case collection == "globals":
		return map[string]int{"Major": 15, "Minor": 4}, nil // what hcsshim makes of Windows Server 2022's service
	case collection == "endpointstats":
		return map[string]string{"EndpointId": id}, nil
	case collection == "endpoints" && len(path) > 2 && path[2] == "stats":
		return map[string]string{"EndpointId": id}, nil
	case collection == "endpoints":
		kind, view = Endpoint, func(o Object) any { return oldEndpoint(o) }
	case collection == "networks":
	case method == http.MethodGet:
		return []any{}, nil
	}
	switch {
	case method == http.MethodDelete && id != "":
		return nil, s.Delete(kind, id)
	case method == http.MethodGet && id != "":
		o, err := s.Get(kind, id)
		if err != nil {
			return nil, err
		}
		return view(o), nil
	case method == http.MethodGet:
		all, err := s.List(kind, "")
		views := []any{}
		for _, o := range all {
			views = append(views, view(o))
		}
		return views, err
	}
	return nil, fmt.Errorf("%s %s is not in the lab's stand-in for the network service", method, strings.Join(path, "/"))
}

func oldNetwork(o Object, managementIP string) map[string]any {
	var n struct {
		Ipams []struct {
			Subnets []struct {
				IpAddressPrefix string
				Routes          []struct{ NextHop string }
			}
		}
	}
	o.into(&n)
	subnets := []map[string]string{}
	for _, ipam := range n.Ipams {
		for _, subnet := range ipam.Subnets {
			old := map[string]string{"AddressPrefix": subnet.IpAddressPrefix}
			if len(subnet.Routes) > 0 {
				old["GatewayAddress"] = subnet.Routes[0].NextHop
			}
			subnets = append(subnets, old)
		}
	}
	return map[string]any{"ID": o.id(), "Name": o.text("Name"), "Type": o.text("Type"), "ManagementIP": managementIP, "Subnets": subnets}
}

func oldEndpoint(o Object) map[string]any {
	old := map[string]any{
		"ID": o.id(), "Name": o.text("Name"), "VirtualNetwork": o.text("HostComputeNetwork"), "MacAddress": o.text("MacAddress"),
	}
	if addresses := o.addresses(); len(addresses) > 0 {
		old["IPAddress"] = addresses[0]
	}
	return old
}
