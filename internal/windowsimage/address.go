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

	"github.com/windows-machine-config/wmco/internal/addresses"
	"github.com/windows-machine-config/wmco/internal/registryclient"
)

const (
	// dialTimeout is for one connection.
	dialTimeout = 5 * time.Second
	// lookupTimeout is for a name that a proxy resolves again.
	lookupTimeout = 2 * time.Second
)

// ErrNoRegistry means that a Guard refuses an address or a name.
var ErrNoRegistry = errors.New("no address of a registry")

// Guard keeps who asks registries for others to registries. Users choose the names of images, and so who is asked; who is asked chooses where
// a redirect leads. Its zero value refuses addresses that no machine of a user has, such as loopback and those of clouds' metadata services.
type Guard struct {
	// Ranges are of the cluster itself, its Services and pods: there is no registry from which Windows nodes get images.
	Ranges []netip.Prefix
	// Own returns the addresses of this machine; nil for none.
	Own func() ([]net.Addr, error)
	// Lookup resolves a name, which ends with a dot. It is for names that a proxy connects to.
	Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)
	// Allowed are hosts, with their ports if images have them, that are asked in any case. Proxies are those to which connections are made.
	Allowed, Proxies []string
}

// address refuses addresses at which there is no registry.
func (g Guard) address(a netip.Addr) error {
	if says := addresses.Special(a); says != "" {
		return fmt.Errorf("%s is %w: it %s", a, ErrNoRegistry, says)
	}
	a = addresses.Reached(a)
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
			return fmt.Errorf("%s is %w: it is that of this machine", a, ErrNoRegistry)
		}
	}
	return nil
}

// Check refuses requests to what is no registry, by its name or address, and by who sends there.
func (g Guard) Check(ctx context.Context, hop registryclient.Hop) error {
	if !slices.Contains(g.Allowed, hop.URL.Host) {
		if err := g.host(ctx, hop.URL.Hostname(), hop.IsProxied); err != nil {
			return err
		}
	}
	if hop.From == nil || hop.URL.Host == hop.From.Host {
		return nil
	}
	return sentOn(hop)
}

// host refuses hosts by what they are called. Without a proxy, Dial sees the address, too.
func (g Guard) host(ctx context.Context, host string, isProxied bool) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return g.address(a)
	}
	if says := addresses.SpecialName(host); says != "" {
		return fmt.Errorf("%.64q is %w: it %s", host, ErrNoRegistry, says)
	}
	if !isProxied {
		return nil
	}
	if err := outside(host); err != nil {
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

// outside refuses names that mean something else from within the cluster than from outside.
func outside(host string) error {
	if a, err := netip.ParseAddr(host); err == nil && a.IsValid() {
		return nil
	}
	if !strings.Contains(strings.TrimSuffix(host, "."), ".") || addresses.InCluster(host) {
		return fmt.Errorf("%.64q is %w: it is a name within the cluster, or one without a domain", host, ErrNoRegistry)
	}
	return nil
}

// sentOn refuses what a registry sends to another host that no registry has to: any URL there but the same content, or its bytes. Registries
// have the bytes of blobs at servers of any kind.
func sentOn(hop registryclient.Hop) error {
	if err := outside(hop.URL.Hostname()); err != nil {
		return err
	}
	at := hop.URL.Path
	isSame := strings.HasPrefix(at, "/v2/") && strings.HasSuffix(at, "/"+hop.Part+"/"+hop.Reference) && path.Clean(at) == at && hop.URL.RawPath == "" && hop.URL.RawQuery == ""
	switch {
	case hop.IsAuthority && hop.URL.RawQuery == "", hop.Part == "blobs" && !hop.IsAuthority, isSame && !hop.IsAuthority:
		return nil
	}
	return fmt.Errorf("it sends on to something else at %.64q", hop.URL.Host)
}

// Dial makes connections, and refuses addresses that names turn out to have. Names are whole: no search list completes them, but for names
// without a domain that an administrator gave, which may be in the hosts file, too.
func (g Guard) Dial() registryclient.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		d := net.Dialer{Timeout: dialTimeout}
		isNamed := func(host string) bool { return address == host || address == host+":443" || address == host+":80" }
		given := slices.ContainsFunc(slices.Concat(g.Allowed, g.Proxies), isNamed)
		if !given {
			d.Control = func(_, address string, _ syscall.RawConn) error {
				to, err := netip.ParseAddrPort(address)
				if err != nil {
					return err
				}
				return g.address(to.Addr())
			}
		}
		if !given || strings.Contains(host, ".") {
			host = addresses.Absolute(host)
		}
		return d.DialContext(ctx, network, net.JoinHostPort(host, port))
	}
}
