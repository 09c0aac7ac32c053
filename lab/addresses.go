//go:build linux

package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Addresses are a range of this machine's own that is not loopback's: a program may listen on any address of it, as simulated hosts do, and
// this machine's programs reach it there. Each is 10.64.0.0/16 to 10.79.0.0/16, one that nothing else on this machine has. All of it ends
// with Close, or with the process.
type Addresses struct {
	prefix netip.Prefix
	link   string // its name reserves the range
	anchor *keeper
	given  atomic.Uint32
}

// The ranges that there are: firstRange is the second byte of the first one.
const (
	firstRange = 64
	ranges     = 16
)

// CanHaveHosts tells whether hosts, on Wine or simulated, can be on this machine: nil, or an error that says what is missing.
func CanHaveHosts() error {
	if os.Geteuid() != 0 {
		return errors.New("hosts of the lab, simulated ones too, have addresses on network links of their own, which need root")
	}
	return nil
}

// OpenAddresses makes a range. progress gets a line for what takes long: the first time ever, the keeper is built.
func OpenAddresses(ctx context.Context, progress io.Writer) (*Addresses, error) {
	if err := CanHaveHosts(); err != nil {
		return nil, err
	}
	program, err := buildKeeper(ctx, progress)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "wmco-addresses-")
	if err != nil {
		return nil, fmt.Errorf("making the folder of the anchor: %w", err)
	}
	a := &Addresses{}
	if a.anchor, err = startKeeper(program, syscall.CLONE_NEWNET, "folder", dir); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if err := a.connect(); err != nil {
		a.Close()
		return nil, fmt.Errorf("making a range of addresses: %w", err)
	}
	return a, nil
}

// connect makes the link, and the route that makes every address of the range this machine's. The other end
// of the link is in the anchor's namespace, so that both are gone when the anchor is.
func (a *Addresses) connect() error {
	ns, err := netns.GetFromPid(a.anchor.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("opening the anchor's namespace: %w", err)
	}
	defer ns.Close()
	h, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer h.Close()
	link, n, err := reserveLink(h, ns, "wmcosim%d", 0, ranges)
	if errors.Is(err, errAllInUse) {
		return fmt.Errorf("choosing one: %w: 10.%d.0.0/16 to 10.%d.0.0/16", err, firstRange, firstRange+ranges-1)
	}
	if err != nil {
		return err
	}
	a.link, a.prefix = link, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(firstRange + n)}), 16)
	return a.route(h)
}

func (a *Addresses) route(h *netlink.Handle) error {
	link, err := h.LinkByName(a.link)
	if err != nil {
		return fmt.Errorf("finding link %s: %w", a.link, err)
	}
	local := &netlink.Route{
		LinkIndex: link.Attrs().Index, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST,
		Dst: &net.IPNet{IP: a.prefix.Addr().AsSlice(), Mask: net.CIDRMask(a.prefix.Bits(), 32)},
	}
	if err := h.RouteAdd(local); err != nil {
		return fmt.Errorf("adding the route to %s: %w", a.prefix, err)
	}
	return nil
}

// Next is an address that nobody has got yet. There are 65,000.
func (a *Addresses) Next() netip.Addr {
	first := a.prefix.Addr().As4()
	var next [4]byte
	binary.BigEndian.PutUint32(next[:], binary.BigEndian.Uint32(first[:])+a.given.Add(1))
	return netip.AddrFrom4(next)
}

// Close gives the range back. It may be called on nil.
func (a *Addresses) Close() {
	if a != nil {
		a.anchor.stop()
	}
}
