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

// Addresses is a range of addresses of this machine, outside of loopback: programs such as simulated hosts can listen on any of
// them, and this machine's programs can connect. Each range is one of 10.64.0.0/16 to 10.79.0.0/16 that nothing else on this
// machine uses. It ends with Close, or with the process.
type Addresses struct {
	prefix netip.Prefix
	link   string // its name reserves the range
	anchor *reaper
	given  atomic.Uint32
}

// The possible ranges: firstRange is the second byte of the first one.
const (
	firstRange = 64
	ranges     = 16
)

// CanHaveHosts returns an error if this machine lacks what hosts need, on Wine or simulated.
func CanHaveHosts() error {
	if os.Geteuid() != 0 {
		return errors.New("hosts of the lab, simulated ones too, have addresses on network links of their own, which need root")
	}
	return nil
}

// OpenAddresses reserves a range. progress gets a line for long operations: the first time, it builds the reaper.
func OpenAddresses(ctx context.Context, progress io.Writer) (*Addresses, error) {
	if err := CanHaveHosts(); err != nil {
		return nil, err
	}
	program, err := build(ctx, progress, reaperProgram())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "wmco-addresses-")
	if err != nil {
		return nil, fmt.Errorf("creating the anchor's folder: %w", err)
	}
	a := &Addresses{}
	if a.anchor, err = startReaper(program, syscall.CLONE_NEWNET, "folder", dir); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if err := a.connect(); err != nil {
		a.Close()
		return nil, fmt.Errorf("reserving a range of addresses: %w", err)
	}
	return a, nil
}

// connect creates the link, and the route that makes every address of the range local. The other end of the link is in the
// anchor's namespace, so that both are removed with the anchor.
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

// Next returns a new address. There are 65,000.
func (a *Addresses) Next() netip.Addr {
	first := a.prefix.Addr().As4()
	var next [4]byte
	binary.BigEndian.PutUint32(next[:], binary.BigEndian.Uint32(first[:])+a.given.Add(1))
	return netip.AddrFrom4(next)
}

// Close releases the range. It may be called on nil.
func (a *Addresses) Close() {
	if a != nil {
		a.anchor.stop()
	}
}
