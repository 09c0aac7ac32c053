package csr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// additionalAddressesRemedy is the remedy if the host's cloud name or address is not recorded.
const additionalAddressesRemedy = "if the cloud assigned it to the host, add it to spec.additionalAddresses of the WindowsInstance"

func dnsNameNotOwn(c candidate) string {
	for _, name := range c.dnsNames() {
		if name != "" && slices.Contains(c.ownNames(), name) {
			continue
		}
		remedy := additionalAddressesRemedy
		if owner := c.known.ownerOfName(name, c.host); owner != "" {
			remedy = "it is " + owner
		} else if len(validation.IsDNS1123Subdomain(name)) > 0 {
			remedy = "it is not a valid host name"
		}
		return fmt.Sprintf("the DNS names in spec.request contain %s; allowed: %s; %s", quote(name), list(c.ownNames()), remedy)
	}
	return ""
}

// dnsNames returns the requested DNS names in lower case, because DNS ignores case.
func (c candidate) dnsNames() []string {
	var all []string
	for _, name := range c.cert.DNSNames {
		all = append(all, strings.ToLower(name))
	}
	return all
}

func (c candidate) ownNames() []string {
	names := []string{c.node}
	if c.host.DNSName != "" {
		names = append(names, c.host.DNSName)
	}
	return append(names, c.host.CloudNames...)
}

func addressNotReported(c candidate) string {
	for _, address := range c.certAddresses() {
		if c.isReported(address) || slices.Contains(parsed(c.host.CloudAddresses), address) {
			continue
		}
		remedy := additionalAddressesRemedy
		if owner := c.known.ownerOf(address, c.host); owner != "" {
			remedy = "it " + owner
		}
		return fmt.Sprintf("the IP addresses in spec.request contain %s; allowed: the addresses of instance %s: %s; %s",
			address, c.host.Instance, list(slices.Concat(c.host.Addresses, c.host.CloudAddresses)), remedy)
	}
	return ""
}

// dnsNameOfAnother covers an instance that was announced with a name that also belongs to another host or to the cluster.
func dnsNameOfAnother(c candidate) string {
	for _, name := range c.dnsNames() {
		if owner := c.known.ownerOfName(name, c.host); owner != "" {
			return fmt.Sprintf("the DNS names in spec.request contain %s, which is %s; allowed: names of only this node", quote(name), owner)
		}
	}
	return ""
}

// ownerOfName returns the owner of a DNS name other than the host; "" if none is known.
func (k Known) ownerOfName(name string, host *Host) string {
	if k.Cluster.HasName(name) {
		return "a name of the cluster"
	}
	if _, isNode := k.Nodes[name]; isNode && name != host.Node {
		return "the name of Node " + name
	}
	for node, current := range k.Nodes {
		if node != host.Node && name != host.Node && name != host.DNSName && slices.Contains(current.Names, name) {
			return "a name of Node " + node
		}
	}
	for _, h := range k.Hosts {
		isOwner := name == h.Node || name == h.DNSName || name != host.Node && slices.Contains(h.CloudNames, name)
		if h.Instance != host.Instance && h.claims() && isOwner {
			return "a name of instance " + h.Instance
		}
	}
	return ""
}

// addressOfAnother covers addresses at which a host was reached but which also belong to others.
func addressOfAnother(c candidate) string {
	for _, address := range c.certAddresses() {
		if owner := c.known.ownerOf(address, c.host); owner != "" {
			return fmt.Sprintf("the IP addresses in spec.request contain %s, which %s; allowed: addresses of only this node", address, owner)
		}
	}
	return ""
}

// ownerOf returns the owner of an address other than the host; "" if none is known. For an address that is proven to be the host's, the status of
// other Nodes is ignored, because any node could block its neighbors' certificates that way. For an address that only the cloud or a user reports,
// other Nodes may be right.
func (k Known) ownerOf(address netip.Addr, host *Host) string {
	isProven := slices.Contains(parsed(host.Addresses), address)
	refuse := k.Cluster.RefuseAdditional
	switch {
	case isProven && (host.Serves || host.KeyKnown): // otherwise, users who create Services could block nodes' certificates
		refuse = k.Cluster.WithoutClaims().Refuse
	case isProven:
		refuse = k.Cluster.Refuse
	}
	if reason := refuse(address); reason != "" {
		return reason
	}
	for name, node := range k.Nodes {
		for _, text := range node.PodCIDRs {
			if r, err := netip.ParsePrefix(text); err == nil && r.Contains(address) {
				return fmt.Sprintf("is in the range %s of the pods of Node %s", r, name)
			}
		}
	}
	for name, node := range k.Nodes {
		if !isProven && name != host.Node && slices.Contains(parsed(node.Addresses), address) {
			return "is an address of Node " + name
		}
	}
	for _, h := range k.Hosts {
		isOwner := slices.Contains(parsed(h.Addresses), address) || !isProven && slices.Contains(parsed(h.CloudAddresses), address)
		if h.Instance != host.Instance && k.isActive(h) && isOwner {
			return "is an address of instance " + h.Instance
		}
	}
	return ""
}

// isActive reports whether a host joins or has a Ready Node.
func (k Known) isActive(h Host) bool {
	return h.CredentialID != "" || h.Registered && k.Nodes[h.Node].Ready
}

// disputes returns the other Nodes whose status claims one of the requested addresses.
func (c candidate) disputes() (names []string) {
	wanted := c.certAddresses()
	if len(wanted) == 0 {
		return nil // a client certificate; no Node needs to be checked
	}
	for name, node := range c.known.Nodes {
		isWanted := func(a netip.Addr) bool { return slices.Contains(wanted, a) }
		if name != c.node && slices.ContainsFunc(parsed(node.Addresses), isWanted) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c candidate) isReported(address netip.Addr) bool {
	return slices.Contains(parsed(c.host.Addresses), address)
}

func (c candidate) certAddresses() []netip.Addr {
	var all []netip.Addr
	for _, ip := range c.cert.IPAddresses {
		address, _ := netip.AddrFromSlice(ip) // crypto/x509 accepts only 4 and 16 bytes
		all = append(all, address.Unmap())
	}
	return all
}

func parsed(texts []string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, address.Unmap())
		}
	}
	return all
}
