package hns

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// items returns the objects of a list in JSON.
func items(list any) []map[string]any {
	var found []map[string]any
	all, _ := list.([]any)
	for _, one := range all {
		if o, ok := one.(map[string]any); ok {
			found = append(found, o)
		}
	}
	return found
}

func text(o map[string]any, field string) string { return Object(o).text(field) }

// completeNetwork adds the fields that Windows adds to a network: a pool of MAC addresses and, to an overlay, the addresses of the
// host and of its router on the host.
func (s *Store) completeNetwork(now *state, n Object) error {
	if name := n.text("Name"); name != "" && len(now.list(Network, map[string]any{"Name": name})) > 0 {
		return NetworkExists
	}
	if n.text("Type") == "" {
		n["Type"] = "NAT"
	}
	if err := now.bind(n); err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(Key(n.id())))
	if len(items(field(n, "MacPool", "Ranges"))) == 0 {
		pool := fmt.Sprintf("00-15-5D-%02X-%X", digest[0], digest[1]>>4)
		n["MacPool"] = map[string]any{"Ranges": []any{map[string]any{"StartMacAddress": pool + "0-00", "EndMacAddress": pool + "F-FF"}}}
	}
	if n.text("Type") == "Overlay" {
		router := fmt.Sprintf("00-15-5D-%02X-%02X-%02X", digest[2], digest[3], digest[4])
		n.addPolicy("DrMacAddress", map[string]any{"Address": router})
		if s.Address != nil && s.Address() != "" {
			n.addPolicy("ProviderAddress", map[string]any{"ProviderAddress": s.Address()})
		}
	}
	n["State"] = 1
	n["Health"] = map[string]any{"Extra": map[string]any{}}
	return nil
}

// field returns the value of a nested field.
func field(o Object, names ...string) any {
	var v any = map[string]any(o)
	for _, name := range names {
		inner, _ := v.(map[string]any)
		v = inner[name]
	}
	return v
}

// addPolicy adds a policy unless the object has one of that type.
func (o Object) addPolicy(kind string, settings map[string]any) {
	for _, p := range items(o["Policies"]) {
		if text(p, "Type") == kind {
			return
		}
	}
	existing, _ := o["Policies"].([]any)
	o["Policies"] = append(slices.Clone(existing), any(map[string]any{"Type": kind, "Settings": settings}))
}

// policies adds or removes policies of a network or an endpoint. Those to remove must match completely; a duplicate can be added.
func (r request2) policies(o Object, q Quirks) error {
	before, _ := o["Policies"].([]any)
	for _, p := range r.Settings.Policies {
		if policy, ok := p.(map[string]any); !ok || text(policy, "Type") == "" {
			return InvalidPolicy
		}
	}
	requested := func(p any) bool {
		return slices.ContainsFunc(r.Settings.Policies, func(q any) bool { return reflect.DeepEqual(p, q) })
	}
	switch r.RequestType {
	case "Add":
		o["Policies"] = append(before, r.Settings.Policies...)
	case "Remove":
		o["Policies"] = slices.DeleteFunc(before, requested)
	case "Update", "Refresh":
		kept := []any{}
		if q.UpdatesByType {
			kept = slices.DeleteFunc(before, func(p any) bool { return r.updates(p) })
		}
		o["Policies"] = append(kept, r.Settings.Policies...)
	default:
		return Unsupported
	}
	return nil
}

// updates reports whether the request has a policy of the type of another.
func (r request2) updates(policy any) bool {
	other, _ := policy.(map[string]any)
	return slices.ContainsFunc(items(r.Settings.Policies), func(p map[string]any) bool { return text(p, "Type") == text(other, "Type") })
}

// subnet is a range of a network's addresses.
type subnet struct {
	prefix  netip.Prefix
	gateway string
}

func (o Object) subnets() []subnet {
	var list []subnet
	for _, ipam := range items(o["Ipams"]) {
		for _, s := range items(ipam["Subnets"]) {
			prefix, err := netip.ParsePrefix(text(s, "IpAddressPrefix"))
			if err != nil {
				continue
			}
			one := subnet{prefix: prefix.Masked()}
			if routes := items(s["Routes"]); len(routes) > 0 {
				one.gateway = text(routes[0], "NextHop")
			}
			list = append(list, one)
		}
	}
	return list
}

// free returns an unused address of the network, with its subnet.
func (now *state) free(network Object) (netip.Addr, subnet, error) {
	for _, s := range network.subnets() {
		first := s.prefix.Addr().Next() // the first one is the network's own
		for a := first; s.prefix.Contains(a) && s.prefix.Contains(a.Next()); a = a.Next() {
			if a.String() != s.gateway && len(now.addresses[addressKey(network.id(), a.String())]) == 0 {
				return a, s, nil
			}
		}
	}
	return netip.Addr{}, subnet{}, fmt.Errorf("finding a free address: %w", InvalidIP)
}

// freeMAC returns an unused address of the network's pool. The search begins at a position derived from the endpoint's ID.
func (now *state) freeMAC(network Object, id string) string {
	ranges := items(field(network, "MacPool", "Ranges"))
	if len(ranges) == 0 {
		return ""
	}
	start := strings.ReplaceAll(text(ranges[0], "StartMacAddress"), "-", "")
	base, err := strconv.ParseUint(start, 16, 64)
	if err != nil {
		return ""
	}
	taken := map[string]bool{}
	for _, e := range now.list(Endpoint, map[string]any{"HostComputeNetwork": network.id()}) {
		taken[e.text("MacAddress")] = true
	}
	digest := sha256.Sum256([]byte(Key(id)))
	for i := range uint64(1 << 12) {
		hex := fmt.Sprintf("%012X", base+(uint64(digest[0])<<4+uint64(digest[1])+i)&0xFFF)
		mac := strings.Join([]string{hex[0:2], hex[2:4], hex[4:6], hex[6:8], hex[8:10], hex[10:12]}, "-")
		if !taken[mac] {
			return mac
		}
	}
	return ""
}
