package desired

import (
	"net/netip"
	"slices"
	"strings"
)

// Served is what the cluster itself answers at: no host has any of it.
type Served struct {
	// Addresses are those of the API servers, and the one they have in common where hosts are told an address and not a name.
	Addresses []netip.Addr
	// Names are those of the API server, in lower case. One that begins with a dot stands for all names that end with it.
	Names []string
	// Ranges are those of Services and of pods.
	Ranges []netip.Prefix
}

// AddServer adds the host of the API server's URL. OpenShift has three names below the cluster's domain: api-int for nodes, api for
// users, and *.apps for its console, its logins and users' routes.
func (s *Served) AddServer(host string) {
	if ip, err := netip.ParseAddr(host); err == nil {
		s.Addresses = append(s.Addresses, ip.Unmap())
		return
	}
	host = strings.ToLower(host)
	s.Names = append(s.Names, host)
	if domain, isOpenShift := strings.CutPrefix(host, "api-int."); isOpenShift {
		s.Names = append(s.Names, "api."+domain, ".apps."+domain)
	}
}

// HasName says whether a DNS name is one of the cluster's. Those of Services, "kubernetes" and "localhost" are in every cluster.
func (s Served) HasName(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	labels := strings.Split(name, ".")
	if labels[0] == "kubernetes" || labels[0] == "localhost" || slices.Contains(labels, "svc") {
		return true
	}
	return slices.ContainsFunc(s.Names, func(is string) bool {
		return name == is || strings.HasPrefix(is, ".") && strings.HasSuffix(name, is)
	})
}

// HasAddress says what of the cluster's an address is, for people; "" when it can be a host's.
func (s Served) HasAddress(ip netip.Addr) string {
	ip = ip.Unmap()
	if slices.Contains(s.Addresses, ip) {
		return "an address of the API server"
	}
	for _, r := range s.Ranges {
		if r.Contains(ip) {
			return "in the range " + r.String() + " of Services or pods"
		}
	}
	return ""
}
