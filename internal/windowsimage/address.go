package windowsimage

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/internal/addresses"
	"github.com/windows-machine-config/wmco/internal/registryclient"
)

// dialTimeout is for one connection.
const dialTimeout = 5 * time.Second

// Users choose the names of images, and so whom the operator asks. Registries inside of the cluster are as good as others.
// The operator's own machine, and what has only a link to it, as the metadata services of clouds, have none.

// checkAddress refuses addresses at which there is no registry.
func checkAddress(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if translated := netip.MustParsePrefix("64:ff9b::/96"); translated.Contains(a) { // NAT64 (RFC 6052)
		whole := a.As16()
		a = netip.AddrFrom4([4]byte(whole[12:]))
	}
	switch {
	case !a.IsValid(), a.IsLoopback(), a.IsUnspecified(), a.IsLinkLocalUnicast(), a.IsMulticast(), netip.MustParsePrefix("0.0.0.0/8").Contains(a):
		return fmt.Errorf("%s is no address of a registry", a)
	}
	return nil
}

// CheckHost refuses hosts by what they are called: behind a proxy, only it knows the address.
func CheckHost(host string) error {
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return checkAddress(a)
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	isNumber := last != "" && strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") // as 127.1, which some resolve
	if last == "" || isNumber || last == "localhost" {
		return fmt.Errorf("%.64q is no host of a registry", host)
	}
	return nil
}

// Dial makes connections, to registries and to the proxy, and refuses addresses that names turn out to have. Names are whole: no search list
// completes them.
func Dial() registryclient.Dial {
	d := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return checkAddress(to.Addr())
	}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return d.DialContext(ctx, network, net.JoinHostPort(addresses.Absolute(host), port))
	}
}
