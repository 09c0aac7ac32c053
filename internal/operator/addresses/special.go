package addresses

import (
	"net/netip"
	"slices"
	"strings"
)

type meaning struct {
	prefix netip.Prefix
	reason string
}

// Purposes of ranges.
const (
	noHost     = "refers to no particular host"
	loopback   = "is a loopback address, which refers to the connecting machine itself"
	linkLocal  = "is a link-local address, which hosts assign to themselves and clouds use for metadata services"
	multicast  = "is a multicast address"
	metadata   = "belongs to a cloud's own services, which give machines their credentials"
	protocols  = "is reserved for protocols (IANA)"
	embedsIPv4 = "embeds an IPv4 address, to which a router would translate it"
	deprecated = "is in a deprecated range (IANA)"
)

// meanings returns the ranges in which users have no machines, from IANA's registries of special-purpose addresses
// (https://www.iana.org/assignments/iana-ipv4-special-registry, and that of IPv6), and addresses of clouds' metadata services outside of these.
// Private ranges are not special, and neither are those that networks use like private ones: 100.64.0.0/10, 198.18.0.0/15. The first match wins.
func meanings() []meaning {
	special := func(text, reason string) meaning { return meaning{netip.MustParsePrefix(text), reason} }
	return []meaning{
		special("0.0.0.0/8", noHost),
		special("127.0.0.0/8", loopback),
		special("169.254.0.0/16", linkLocal),
		special("168.63.129.16/32", metadata),   // Azure
		special("100.100.100.200/32", metadata), // Alibaba
		special("192.0.0.192/32", metadata),     // Oracle
		special("192.0.0.0/24", protocols),
		special("192.88.99.0/24", deprecated), // 6to4 relays
		special("224.0.0.0/4", multicast),
		special("255.255.255.255/32", "is the broadcast address"),
		special("240.0.0.0/4", "is in reserved class E, which Windows does not support"),

		special("::/128", noHost),
		special("::1/128", loopback),
		special("::/96", deprecated),                       // IPv4-compatible
		special("::ffff:0:0:0/96", embedsIPv4),             // SIIT
		special("64:ff9b:1::/48", embedsIPv4),              // NAT64 of local networks (RFC 8215)
		special("100::/64", "is a discard-only address"),   // RFC 6666
		special("100:0:0:1::/64", "is not a host address"), // RFC 9780
		special("fd00:ec2::/32", metadata),                 // AWS
		special("fd20:ce::254/128", metadata),              // Google Cloud
		special("fd00:c1::a9fe:a9fe/128", metadata),        // Oracle
		special("fd00:42::42/128", metadata),               // Scaleway
		special("2001::/23", protocols),                    // Teredo, ORCHID and others
		special("2002::/16", embedsIPv4),                   // 6to4
		special("5f00::/16", protocols),                    // segment routing
		special("fe80::/10", linkLocal),
		special("fec0::/10", deprecated), // site-local
		special("ff00::/8", multicast),
	}
}

// Special returns the meaning of an address that cannot belong to a user's machine; empty for all others, including private ones.
func Special(ip netip.Addr) string {
	ip = Translated(ip)
	if !ip.IsValid() {
		return "is not an address"
	}
	for _, m := range meanings() {
		if m.prefix.Contains(ip) {
			return m.reason
		}
	}
	return ""
}

// Translated returns the address at which packets arrive: the IPv4 address in an IPv6 address that the network translates (RFC 4291, and NAT64 of
// RFC 6052), or the address itself.
func Translated(ip netip.Addr) netip.Addr {
	ip = ip.WithZone("").Unmap()
	if netip.MustParsePrefix("64:ff9b::/96").Contains(ip) {
		whole := ip.As16()
		return netip.AddrFrom4([4]byte(whole[12:]))
	}
	return ip
}

// SpecialName returns the meaning of a name that cannot belong to a user's machine, whatever it resolves to; empty for all others.
func SpecialName(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	switch {
	case last == "":
		return "is not a host name"
	case strings.Trim(last, "0123456789") == "", strings.HasPrefix(last, "0x"): // for example 127.1, which some resolvers accept
		return "is an address in another notation, or not a host name"
	case last == "localhost", last == "localdomain", name == "ip6-localhost", name == "ip6-loopback":
		return loopback
	case slices.Contains([]string{
		"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal", "metadata.tencentyun.com",
		"metadata.platformequinix.com", "metadata.packet.net", "api.metadata.cloud.ibm.com",
	}, name):
		return "is a name of a cloud's metadata service"
	}
	return ""
}

// InCluster reports whether a name belongs to the cluster's own DNS.
func InCluster(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.Contains(strings.Split(name, "."), "svc") || strings.HasSuffix(name, ".cluster.local")
}
