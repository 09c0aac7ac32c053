// Package addresses determines which IP addresses and DNS names cannot belong to a Windows host, whatever their source: those with a special meaning
// everywhere, and those that the cluster uses otherwise. The package has no side effects: the cluster is a value.
package addresses

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Cluster has the addresses in a cluster that belong to no Windows host. The zero value is a cluster about which nothing is known.
type Cluster struct {
	// Services and Pods are address ranges.
	Services, Pods []netip.Prefix
	// Servers are the addresses of the cluster's API, Names its DNS names in lower case. A name with a leading dot matches all names that end with
	// it.
	Servers []netip.Addr
	Names   []string
	// Domain is the cluster's DNS domain, if known.
	Domain string
	// Nodes maps addresses to the names of Nodes that are not Windows. Each kubelet chooses its own addresses.
	Nodes map[netip.Addr]string
	// Claimed describes, by address, the Service that claims it; Released, one that did until a moment ago. Uncounted is a Service that claims too
	// many addresses to compare; empty if there is none. Users who may create Services choose their addresses.
	Claimed, Released map[netip.Addr]string
	Uncounted         string
}

// hostKeyFields names the places where users record host keys.
const hostKeyFields = "spec.hostKey or ConfigMap windows-known-hosts"

// Refuse explains why no Windows host can be reached at an address, as text to follow the address; "" if one can.
func (c Cluster) Refuse(ip netip.Addr) string {
	if ip = ip.Unmap(); !ip.Is4() {
		return "is not an IPv4 address, which Windows nodes require"
	}
	if reason := c.refuseOwn(ip); reason != "" {
		return reason
	}
	return c.RefuseClaimed(ip)
}

// RefuseAdditional explains why an IPv4 or IPv6 address cannot be an additional address of a Windows host, which no SSH key proves; as text to follow
// the address, "" if it can.
func (c Cluster) RefuseAdditional(ip netip.Addr) string {
	ip = ip.Unmap()
	if reason := c.refuseOwn(ip); reason != "" {
		return reason
	}
	reason, _ := c.claimOf(ip)
	return reason
}

// refuseOwn checks an address against everything but Services.
func (c Cluster) refuseOwn(ip netip.Addr) string {
	if reason := Special(ip); reason != "" {
		return reason
	}
	for _, s := range c.Servers {
		if s.Unmap() == ip {
			return "is an address of the cluster's API server"
		}
	}
	if node, taken := c.Nodes[ip]; taken {
		return fmt.Sprintf("is an address of Node %s, which is not Windows; if the Node is wrong, set the host's key in %s", node, hostKeyFields)
	}
	if p, in := within(c.Services, ip); in {
		return fmt.Sprintf("is in the cluster's range for Services, %s", p)
	}
	if p, in := within(c.Pods, ip); in {
		return fmt.Sprintf("is in the cluster's range for pods, %s", p)
	}
	return ""
}

// RefuseClaimed names the Service that diverts connections to an address to its pods, as text to follow the address; "" if there is none.
func (c Cluster) RefuseClaimed(ip netip.Addr) string {
	reason, isCurrent := c.claimOf(ip.Unmap())
	if isCurrent {
		reason += ", or set the host's key in " + hostKeyFields
	}
	return reason
}

// claimOf names the Service that claims or recently claimed an address, with the remedy; isCurrent reports whether it still claims it.
func (c Cluster) claimOf(ip netip.Addr) (reason string, isCurrent bool) {
	if claimant := c.Claimed[ip]; claimant != "" {
		return fmt.Sprintf("is in %s, whose pods would answer in place of the host; if the address belongs to the host, remove it from the Service", claimant), true
	}
	if claimant := c.Released[ip]; claimant != "" {
		return fmt.Sprintf("was until recently in %s, whose pods may still answer for the host; wait a few minutes", claimant), false
	}
	if c.Uncounted != "" {
		return fmt.Sprintf("may be claimed by Service %s, which has too many addresses to compare; delete the Service, or remove addresses from it", c.Uncounted), false
	}
	return "", false
}

// WithoutClaims returns the cluster without claims by kubelets and Services, which suffices for a host that proves its identity.
func (c Cluster) WithoutClaims() Cluster {
	c.Nodes, c.Claimed, c.Released, c.Uncounted = nil, nil, nil, ""
	return c
}

// AddServer adds the host of the API server's URL. OpenShift has three names below the cluster's domain: api-int for nodes, api for users, and *.apps
// for the console, logins and users' routes.
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

// HasName reports whether a DNS name is one of the cluster's. Those of Services, "kubernetes" and "localhost" exist in every cluster.
func (c Cluster) HasName(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	labels := strings.Split(name, ".")
	if labels[0] == "kubernetes" || labels[0] == "localhost" || slices.Contains(labels, "svc") {
		return true
	}
	return c.isNamed(name)
}

// isNamed reports whether a name, in lower case and without a trailing dot, is one of Names.
func (c Cluster) isNamed(name string) bool {
	return slices.ContainsFunc(c.Names, func(current string) bool {
		return name == current || strings.HasPrefix(current, ".") && strings.HasSuffix(name, current)
	})
}

// RefuseName explains why a DNS name cannot belong to a Windows host, as text to follow the name; "" if it can.
func (c Cluster) RefuseName(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	isBelow := func(domain string) bool { return strings.HasSuffix("."+name, "."+domain) }
	switch {
	case !strings.Contains(name, "."):
		return "has no dot, and the operator does not complete names; write the full name, for example " + name + ".example.com"
	case isBelow("svc"), isBelow("cluster.local"), c.Domain != "" && isBelow(c.Domain):
		return "is a name of the cluster's own DNS, which no Windows host has"
	case SpecialName(name) != "":
		return SpecialName(name)
	case c.isNamed(name):
		return "is a name of the cluster's API server or of its routes"
	}
	return ""
}

// Absolute returns a name with a trailing dot, which prevents resolvers from applying a search list. A pod's search list may contain domains of the
// cluster, in which users choose the names. Addresses are returned unchanged.
func Absolute(name string) string {
	if _, err := netip.ParseAddr(name); err == nil || name == "" || strings.HasSuffix(name, ".") {
		return name
	}
	return name + "."
}

func within(ranges []netip.Prefix, ip netip.Addr) (netip.Prefix, bool) {
	for _, p := range ranges {
		if p.Contains(ip) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
