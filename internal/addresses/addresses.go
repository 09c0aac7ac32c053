// Package addresses says which IP addresses and DNS names cannot be a Windows host's, whoever says that there is one: those that mean
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
	// Domain is that of the cluster's DNS, where it is known.
	Domain string
	// Nodes have the names of Nodes that are not Windows, by their addresses. Each kubelet chooses its own.
	Nodes map[netip.Addr]string
	// Claimed have what of which Service claims an address, Released the same of a moment ago. Uncounted is a Service that claims more addresses
	// than are compared; empty for none. Who may create Services chooses their addresses.
	Claimed, Released map[netip.Addr]string
	Uncounted         string
}

// howToKnow is where users write down the keys of hosts.
const howToKnow = "spec.hostKey or in ConfigMap windows-known-hosts"

// Refuse says why no Windows host can be reached at an address, in words that go behind it; "" when one can.
func (c Cluster) Refuse(ip netip.Addr) string {
	if ip = ip.Unmap(); !ip.Is4() {
		return "is no IPv4 address, at which Windows nodes are reached"
	}
	if why := c.refuseOwn(ip); why != "" {
		return why
	}
	return c.RefuseClaimed(ip)
}

// RefuseFurther says why an address of IPv4 or IPv6 cannot be one that a Windows host has besides the one at which it is reached, where its key
// proves nothing; in words that go behind it, "" when it can.
func (c Cluster) RefuseFurther(ip netip.Addr) string {
	ip = ip.Unmap()
	if why := c.refuseOwn(ip); why != "" {
		return why
	}
	why, _ := c.claimOf(ip)
	return why
}

// refuseOwn says what an address is of all but Services.
func (c Cluster) refuseOwn(ip netip.Addr) string {
	if says := Special(ip); says != "" {
		return says
	}
	for _, s := range c.Servers {
		if s.Unmap() == ip {
			return "is an address of the cluster's API server"
		}
	}
	if node, taken := c.Nodes[ip]; taken {
		return fmt.Sprintf("is an address of Node %s, which is not Windows; if the Node is wrong, write down the host's key, as %s", node, howToKnow)
	}
	if p, in := within(c.Services, ip); in {
		return fmt.Sprintf("is in the cluster's range of addresses for Services, %s", p)
	}
	if p, in := within(c.Pods, ip); in {
		return fmt.Sprintf("is in the cluster's range of addresses for pods, %s", p)
	}
	return ""
}

// RefuseClaimed says which Service has connections to an address sent to its pods, in words that go behind it; "" for none.
func (c Cluster) RefuseClaimed(ip netip.Addr) string {
	why, isNow := c.claimOf(ip.Unmap())
	if isNow {
		why += ", or write down the host's key, as " + howToKnow
	}
	return why
}

// claimOf says which Service claims an address, or did, and what to do; whether it does now.
func (c Cluster) claimOf(ip netip.Addr) (why string, isNow bool) {
	if by := c.Claimed[ip]; by != "" {
		return fmt.Sprintf("is in %s, whose pods would answer for the host; take it out there if it is the host's", by), true
	}
	if by := c.Released[ip]; by != "" {
		return fmt.Sprintf("was in %s a moment ago, whose pods may still answer for the host; wait for some minutes", by), false
	}
	if c.Uncounted != "" {
		return fmt.Sprintf("may be one of those that Service %s claims, which are too many to compare; delete the Service, or take addresses out of it", c.Uncounted), false
	}
	return "", false
}

// WithoutClaims is the cluster without what kubelets and those who have Services say: enough for a host that proves who it is.
func (c Cluster) WithoutClaims() Cluster {
	c.Nodes, c.Claimed, c.Released, c.Uncounted = nil, nil, nil, ""
	return c
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
	return c.isNamed(name)
}

// isNamed says whether a name, in lower case and without a dot at its end, is one of Names.
func (c Cluster) isNamed(name string) bool {
	return slices.ContainsFunc(c.Names, func(is string) bool {
		return name == is || strings.HasPrefix(is, ".") && strings.HasSuffix(name, is)
	})
}

// RefuseName says why a DNS name can be no Windows host's, in words that go behind it; "" when it can.
func (c Cluster) RefuseName(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	isBelow := func(domain string) bool { return strings.HasSuffix("."+name, "."+domain) }
	switch {
	case !strings.Contains(name, "."):
		return "has no dot, and the operator completes no names; write the whole name, for example " + name + ".example.com"
	case isBelow("svc"), isBelow("cluster.local"), c.Domain != "" && isBelow(c.Domain):
		return "is a name inside of the cluster, which no Windows host has"
	case SpecialName(name) != "":
		return SpecialName(name)
	case c.isNamed(name):
		return "is a name of the cluster's API server or of its routes"
	}
	return ""
}

// Absolute is a name as it is looked up: with the dot at its end that keeps resolvers from completing it by a search list. Of a pod, that list may
// have domains of the cluster, where users choose the names. Addresses stay as they are.
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
