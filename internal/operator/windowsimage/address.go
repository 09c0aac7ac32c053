package windowsimage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

const (
	// dialTimeout limits one connection attempt.
	dialTimeout = 5 * time.Second
	// lookupTimeout limits resolving a name that a proxy resolves again.
	lookupTimeout = 2 * time.Second
)

// ErrNoRegistry means that a Guard rejects an address or a name.
var ErrNoRegistry = errors.New("not an address of a registry")

// Guard prevents requests to registries from reaching anything else. Users choose image names and thus the registries; the registries choose the
// targets of redirects. The zero value rejects addresses that no user's machine has, such as loopback and the metadata services of clouds.
type Guard struct {
	// Ranges are the cluster's own ranges of Services and pods: no registry there serves Windows nodes.
	Ranges []netip.Prefix
	// Own returns the addresses of this machine; nil for none.
	Own func() ([]net.Addr, error)
	// Lookup resolves a fully qualified name with a trailing dot. It is used for names that a proxy connects to.
	Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)
	// Allowed are hosts, with their ports if images have them, whose addresses are not checked. Nor are those of Proxies, the configured
	// proxies.
	Allowed, Proxies []string
}

func (g Guard) address(a netip.Addr) error {
	if reason := addresses.Special(a); reason != "" {
		return fmt.Errorf("%s is %w: it %s", a, ErrNoRegistry, reason)
	}
	a = addresses.Translated(a)
	for _, r := range g.Ranges {
		if r.Contains(a) {
			return fmt.Errorf("%s is %w: it is in %s, a range of the cluster's Services or pods", a, ErrNoRegistry, r)
		}
	}
	if g.Own == nil {
		return nil
	}
	own, err := g.Own()
	if err != nil {
		return fmt.Errorf("reading the addresses of this machine: %w", err)
	}
	for _, n := range own {
		if p, ok := n.(*net.IPNet); ok && p.IP.Equal(a.AsSlice()) {
			return fmt.Errorf("%s is %w: it is an address of this machine", a, ErrNoRegistry)
		}
	}
	return nil
}

// Check rejects requests to anything but a registry, based on its name or address and on the host that redirects to it.
func (g Guard) Check(ctx context.Context, hop registryclient.Hop) error {
	if !slices.Contains(g.Allowed, hop.URL.Host) {
		if err := g.host(ctx, hop.URL.Hostname(), hop.IsProxied); err != nil {
			return err
		}
	}
	if hop.From == nil || hop.URL.Host == hop.From.Host {
		return nil
	}
	return checkRedirect(hop)
}

// host rejects hosts by their name. Without a proxy, Dial checks the address, too.
func (g Guard) host(ctx context.Context, host string, isProxied bool) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return g.address(a)
	}
	if reason := addresses.SpecialName(host); reason != "" {
		return fmt.Errorf("%.64q is %w: it %s", host, ErrNoRegistry, reason)
	}
	if !isProxied {
		return nil
	}
	if err := checkOutside(host); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := g.Lookup(ctx, "ip", strings.TrimSuffix(host, ".")+".")
	if err != nil { // only the proxy can resolve it
		return nil
	}
	for _, a := range found {
		if err := g.address(a); err != nil {
			return err
		}
	}
	return nil
}

// checkOutside rejects names that have a different meaning inside the cluster than outside.
func checkOutside(host string) error {
	if a, err := netip.ParseAddr(host); err == nil && a.IsValid() {
		return nil
	}
	if !strings.Contains(strings.TrimSuffix(host, "."), ".") || addresses.InCluster(host) {
		return fmt.Errorf("%.64q is %w: it is a name within the cluster, or one without a domain", host, ErrNoRegistry)
	}
	return nil
}

// checkRedirect rejects redirects to another host that no registry needs: any URL except the same content, or the bytes of a blob. Registries may store
// blobs on servers of any kind.
func checkRedirect(hop registryclient.Hop) error {
	if err := checkOutside(hop.URL.Hostname()); err != nil {
		return err
	}
	at := hop.URL.Path
	isSame := strings.HasPrefix(at, "/v2/") && strings.HasSuffix(at, "/"+hop.Part+"/"+hop.Reference) && path.Clean(at) == at && hop.URL.RawPath == "" && hop.URL.RawQuery == ""
	switch {
	case hop.IsTokenServer && hop.URL.RawQuery == "", hop.Part == "blobs" && !hop.IsTokenServer, isSame && !hop.IsTokenServer:
		return nil
	}
	return fmt.Errorf("it redirects to something else at %.64q", hop.URL.Host)
}

// Dial returns a function that opens connections and rejects forbidden addresses after resolution. Names are absolute, so that no search list
// applies. Exceptions are names without a domain that an administrator configured, which may also be in the hosts file.
func (g Guard) Dial() registryclient.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		d := net.Dialer{Timeout: dialTimeout}
		isNamed := func(host string) bool { return address == host || address == host+":443" || address == host+":80" }
		configured := slices.ContainsFunc(slices.Concat(g.Allowed, g.Proxies), isNamed)
		if !configured {
			d.Control = func(_, address string, _ syscall.RawConn) error {
				to, err := netip.ParseAddrPort(address)
				if err != nil {
					return err
				}
				return g.address(to.Addr())
			}
		}
		if !configured || strings.Contains(host, ".") {
			host = addresses.Absolute(host)
		}
		return d.DialContext(ctx, network, net.JoinHostPort(host, port))
	}
}
