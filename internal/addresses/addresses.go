// Package addresses says which IPv4 addresses and DNS names cannot be a Windows host's, whoever says that there is one: those that mean
// something else everywhere, and those that the cluster has for something else. Pure: the cluster is a value.
package addresses

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Cluster is what has addresses in a cluster and is no Windows host. The zero value is a cluster of which nothing is known.
type Cluster struct {
	// Services and Pods are ranges of addresses.
	Services, Pods []netip.Prefix
	// Servers are the addresses at which the cluster's API is served, Names the DNS names, in lower case. A name that begins with a dot
	// stands for all names that end with it.
	Servers []netip.Addr
	Names   []string
	// Nodes have the names of Nodes that are not Windows, by their addresses.
	Nodes map[netip.Addr]string
}

// Refuse says why no Windows host can have an address, in words that go behind it; "" when one can.
func (c Cluster) Refuse(ip netip.Addr) string {
	ip = ip.Unmap()
	if !ip.Is4() {
		return "is no IPv4 address, at which Windows nodes are reached"
	}
	if says := Special(ip); says != "" {
		return says
	}
	for _, s := range c.Servers {
		if s.Unmap() == ip {
			return "is an address of the cluster's API server"
		}
	}
	if node, taken := c.Nodes[ip]; taken {
		return fmt.Sprintf("is an address of Node %s, which is not Windows", node)
	}
	if p, in := within(c.Services, ip); in {
		return fmt.Sprintf("is in the cluster's range of addresses for Services, %s", p)
	}
	if p, in := within(c.Pods, ip); in {
		return fmt.Sprintf("is in the cluster's range of addresses for pods, %s", p)
	}
	return ""
}

// AddServer adds the host of the API server's URL. OpenShift has three names below the cluster's domain: api-int for nodes, api for users,
// and *.apps for its console, its logins and users' routes.
func (c *Cluster) AddServer(host string) {
	if ip, err := netip.ParseAddr(host); err == nil {
		c.Servers = append(c.Servers, ip.Unmap())
		return
	}
	host = strings.ToLower(host)
	c.Names = append(c.Names, host)
	if domain, isOpenShift := strings.CutPrefix(host, "api-int."); isOpenShift {
		c.Names = append(c.Names, "api."+domain, ".apps."+domain)
	}
}

// HasName says whether a DNS name is one of the cluster's. Those of Services, "kubernetes" and "localhost" are in every cluster.
func (c Cluster) HasName(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	labels := strings.Split(name, ".")
	if labels[0] == "kubernetes" || labels[0] == "localhost" || slices.Contains(labels, "svc") {
		return true
	}
	return slices.ContainsFunc(c.Names, func(is string) bool {
		return name == is || strings.HasPrefix(is, ".") && strings.HasSuffix(name, is)
	})
}

func within(ranges []netip.Prefix, ip netip.Addr) (netip.Prefix, bool) {
	for _, p := range ranges {
		if p.Contains(ip) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
