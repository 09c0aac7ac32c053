// Package balancer turns objects of a host's network service into rulesets of nftables: load balancers into one that balances their connections in the
// kernel, and the ACLs of endpoints into tables that filter their packets.
package balancer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// dsr is the flag of load balancers whose servers answer clients directly (hcsshim's hcn/hcnloadbalancer.go).
const dsr = 1

// loadBalancer has the fields of a load balancer of the network service that the ruleset needs.
type loadBalancer struct {
	FrontendVIPs         []netip.Addr // the host's own address if empty
	SourceVIP            string       // the client that servers see, unless they answer directly
	HostComputeEndpoints []string
	PortMappings         []portMapping
	Flags                int
}

type portMapping struct {
	Protocol                   int
	InternalPort, ExternalPort uint16
	DistributionType           int // by connection if 0, else by client
}

type endpoint struct {
	ID               string
	Flags            int
	IpConfigurations []struct{ IpAddress netip.Addr }
}

// Ruleset returns the input of "nft -f" that replaces the last ruleset. pods is the range of the cluster's pods.
func Ruleset(host netip.Addr, pods netip.Prefix, networks, loadBalancers, endpoints []hns.Object) string {
	addresses := addressesOf(endpoints)
	var services, clients strings.Builder
	all := map[netip.Addr]bool{}
	for _, o := range loadBalancers {
		var lb loadBalancer
		if err := o.Into(&lb); err != nil {
			continue // no address that a client could use
		}
		var servers []netip.Addr
		for _, id := range lb.HostComputeEndpoints {
			servers = append(servers, addresses[hns.Key(id)]...)
		}
		for _, s := range servers {
			all[s] = true
		}
		if len(lb.FrontendVIPs) == 0 {
			lb.FrontendVIPs = []netip.Addr{host}
		}
		for _, vip := range lb.FrontendVIPs {
			for _, port := range lb.PortMappings {
				to, from := rules(vip, port, servers, lb.source())
				services.WriteString(to)
				clients.WriteString(from)
			}
		}
	}
	return fmt.Sprintf(ruleset, services.String(), clients.String(), hairpin(host, all), encapsulation(pods, networks))
}

// hairpin returns the rule for servers that are their own clients. The host replaces the client's address, because a server
// drops packets that come from its own address.
func hairpin(host netip.Addr, servers map[netip.Addr]bool) string {
	if len(servers) == 0 {
		return ""
	}
	var pairs []string
	for _, s := range slices.SortedFunc(maps.Keys(servers), netip.Addr.Compare) {
		pairs = append(pairs, fmt.Sprintf("%s . %s", s, s))
	}
	return fmt.Sprintf("\t\tip saddr . ip daddr { %s } ct status dnat snat ip to %s\n", strings.Join(pairs, ", "), host)
}

// ruleset has the rules for connections to Services, for the client addresses that their servers see, and for routes between
// pods. The hooks for the host's own packets have no names for priorities: -100 is dstnat, 100 is srcnat.
const ruleset = `table ip lab
delete table ip lab
table ip lab {
	chain services {
%s	}
	chain clients {
%s	}
	chain prerouting {
		type nat hook prerouting priority dstnat
		jump services
	}
	chain output {
		type nat hook output priority -100
		jump services
	}
	chain input {
		type nat hook input priority 100
		jump clients
	}
	chain postrouting {
		type nat hook postrouting priority srcnat
%s		jump clients
	}
	chain forward {
		type filter hook forward priority filter
%s	}
}
`

// source returns the address that servers see in place of the client's; invalid if they see the client's.
func (lb loadBalancer) source() netip.Addr {
	if lb.Flags&dsr != 0 {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(lb.SourceVIP)
	return address
}

// rules returns rules that distribute the connections to an address over servers: in turn, or all of one client to the same
// server. They are empty without servers, and for addresses and protocols that nftables does not balance here.
func rules(vip netip.Addr, port portMapping, servers []netip.Addr, source netip.Addr) (to, from string) {
	protocol := map[int]string{6: "tcp", 17: "udp"}[port.Protocol]
	if protocol == "" || len(servers) == 0 || !vip.Is4() {
		return "", ""
	}
	target := fmt.Sprintf("%s:%d", servers[0], port.InternalPort)
	if len(servers) > 1 {
		choice := "numgen inc"
		if port.DistributionType != 0 {
			choice = "jhash ip saddr"
		}
		var list []string
		for i, s := range servers {
			list = append(list, fmt.Sprintf("%d : %s . %d", i, s, port.InternalPort))
		}
		target = fmt.Sprintf("%s mod %d map { %s }", choice, len(servers), strings.Join(list, ", "))
	}
	to = fmt.Sprintf("\t\tip daddr %s %s dport %d dnat ip to %s\n", vip, protocol, port.ExternalPort, target)
	if source.Is4() {
		from = fmt.Sprintf("\t\tct original ip daddr %s meta l4proto %s ct original proto-dst %d ct status dnat snat ip to %s\n",
			vip, protocol, port.ExternalPort, source)
	}
	return to, from
}

// addressesOf returns the addresses of endpoints, by ID.
func addressesOf(endpoints []hns.Object) map[string][]netip.Addr {
	all := map[string][]netip.Addr{}
	for _, o := range endpoints {
		var e endpoint
		if err := o.Into(&e); err != nil {
			continue
		}
		for _, c := range e.IpConfigurations {
			if c.IpAddress.Is4() {
				all[hns.Key(e.ID)] = append(all[hns.Key(e.ID)], c.IpAddress)
			}
		}
	}
	return all
}
