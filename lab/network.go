//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// A network connects hosts to each other and to this machine, and to nothing else:
//
//	this machine            anchor (a namespace)        host 1 (a namespace)
//	wmco7  10.99.7.1/24 --- uplink  bridge  port2  ---  eth0  10.99.7.2/24
//	                                        port3  ---  eth0 of host 2 ...
//
// No namespace has a name: all end with the processes in them.
type network struct {
	number int // the third byte of its addresses
	anchor *reaper
	inside *netlink.Handle // a handle for the anchor's namespace
}

const (
	bridgeName = "bridge"
	uplinkName = "uplink"
	hostLink   = hostspec.Link
)

// firstHost is the last byte of the first host's address.
const firstHost = 2

// openNetwork creates a network with a number that no other network of this machine has. The anchor also removes dir at the end.
func openNetwork(reaperProgram, dir string) (*network, error) {
	anchor, err := startReaper(reaperProgram, syscall.CLONE_NEWNET, "folder", dir)
	if err != nil {
		return nil, err
	}
	n := &network{anchor: anchor}
	if err := n.connect(); err != nil {
		n.close()
		return nil, fmt.Errorf("creating the hosts' network: %w", err)
	}
	return n, nil
}

func (n *network) connect() error {
	ns, err := netns.GetFromPid(n.anchor.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("opening the anchor's namespace: %w", err)
	}
	defer ns.Close()
	if n.inside, err = netlink.NewHandleAt(ns); err != nil {
		return fmt.Errorf("entering the anchor's namespace: %w", err)
	}
	if err := n.inside.LinkAdd(&netlink.Bridge{LinkAttrs: attributes(bridgeName)}); err != nil {
		return fmt.Errorf("creating the bridge: %w", err)
	}
	if err := up(n.inside, bridgeName); err != nil {
		return err
	}
	if err := n.addUplink(ns); err != nil {
		return err
	}
	return n.attach(uplinkName)
}

// addUplink creates the link between this machine and the anchor. Its name reserves the number.
func (n *network) addUplink(anchor netns.NsHandle) error {
	outside, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer outside.Close()
	link, i, err := reserveLink(outside, anchor, "wmco%d", 1, 254)
	if errors.Is(err, errAllInUse) {
		return fmt.Errorf("choosing a number: %w: 10.99.1.0/24 to 10.99.254.0/24", err)
	}
	if err != nil {
		return err
	}
	n.number = i
	if err := address(outside, link, n.address(1)); err != nil {
		return err
	}
	return n.routePods(outside, link)
}

// errAllInUse means that no number is left.
var errAllInUse = errors.New("all are in use")

// reserveLink creates a link between this machine and a namespace, and enables it. Its name contains one of count numbers from
// first on, which is reserved on this machine as long as the link exists. The link exists as long as the namespace.
func reserveLink(h *netlink.Handle, ns netns.NsHandle, format string, first, count int) (name string, number int, err error) {
	for _, i := range rand.Perm(count) {
		number = first + i
		name = fmt.Sprintf(format, number)
		err := h.LinkAdd(&netlink.Veth{LinkAttrs: attributes(name), PeerName: uplinkName, PeerNamespace: netlink.NsFd(ns)})
		if errors.Is(err, syscall.EEXIST) {
			continue
		}
		if err != nil {
			return "", 0, fmt.Errorf("creating link %s: %w", name, err)
		}
		return name, number, up(h, name)
	}
	return "", 0, errAllInUse
}

// addHost connects the namespace of a process as the host with a number from firstHost on.
func (n *network) addHost(number, pid int) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("opening the host's namespace: %w", err)
	}
	defer ns.Close()
	link := &netlink.Veth{LinkAttrs: attributes(port(number)), PeerName: hostLink, PeerNamespace: netlink.NsFd(ns)}
	if err := n.inside.LinkAdd(link); err != nil {
		return fmt.Errorf("creating the host's link: %w", err)
	}
	if err := n.attach(port(number)); err != nil {
		return err
	}
	host, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("entering the host's namespace: %w", err)
	}
	defer host.Close()
	if err := address(host, hostLink, n.address(number)); err != nil {
		return err
	}
	for _, name := range []string{"lo", hostLink} {
		if err := up(host, name); err != nil {
			return err
		}
	}
	if err := n.routePods(host, hostLink); err != nil {
		return err
	}
	// kubelet uses the address of the interface with the default route.
	if err := host.RouteAdd(&netlink.Route{Gw: net.ParseIP(n.address(1))}); err != nil {
		return fmt.Errorf("adding the default route: %w", err)
	}
	return nil
}

// removeHost removes a host's link. The kernel would remove it, but only some time after the last process of the namespace.
func (n *network) removeHost(number int) {
	if link, err := n.inside.LinkByName(port(number)); err == nil {
		_ = n.inside.LinkDel(link)
	}
}

// cut disables a host's link, heal enables it.
func (n *network) cut(number int) error {
	link, err := n.inside.LinkByName(port(number))
	if err == nil {
		err = n.inside.LinkSetDown(link)
	}
	if err != nil {
		return fmt.Errorf("taking link %s down: %w", port(number), err)
	}
	return nil
}

func (n *network) heal(number int) error { return up(n.inside, port(number)) }

// attach adds a link to the bridge.
func (n *network) attach(name string) error {
	link, err := n.inside.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding link %s: %w", name, err)
	}
	bridge, err := n.inside.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("finding the bridge: %w", err)
	}
	if err := n.inside.LinkSetMaster(link, bridge); err != nil {
		return fmt.Errorf("attaching link %s: %w", name, err)
	}
	return up(n.inside, name)
}

func (n *network) address(number int) string { return fmt.Sprintf("10.99.%d.%d", n.number, number) }

// pods returns the range of pod addresses of this network: one for each number, so that labs do not conflict.
func (n *network) pods() string { return fmt.Sprintf("10.%d.%d.0/17", 128+n.number/2, n.number%2*128) }

// routePods routes the addresses of pods directly to the bridge, where their hosts answer ARP requests for them.
func (n *network) routePods(h *netlink.Handle, link string) error {
	l, err := h.LinkByName(link)
	if err != nil {
		return fmt.Errorf("finding link %s: %w", link, err)
	}
	_, pods, err := net.ParseCIDR(n.pods())
	if err != nil {
		return fmt.Errorf("parsing the pod network: %w", err)
	}
	if err := h.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: pods, Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("adding the route to pods: %w", err)
	}
	return nil
}

func (n *network) close() {
	if n.inside != nil {
		n.inside.Close() // it keeps the namespace open
	}
	n.anchor.stop()
}

func port(number int) string { return fmt.Sprintf("port%d", number) }

func attributes(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

func address(h *netlink.Handle, link, ip string) error {
	l, err := h.LinkByName(link)
	if err != nil {
		return fmt.Errorf("finding link %s: %w", link, err)
	}
	parsed, err := netlink.ParseAddr(ip + "/24")
	if err != nil {
		return fmt.Errorf("parsing address %s: %w", ip, err)
	}
	if err := h.AddrAdd(l, parsed); err != nil {
		return fmt.Errorf("adding %s to link %s: %w", ip, link, err)
	}
	return nil
}

func up(h *netlink.Handle, link string) error {
	l, err := h.LinkByName(link)
	if err == nil {
		err = h.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("taking link %s up: %w", link, err)
	}
	return nil
}

// inNamespace runs a function on a thread in the network namespace of a process. Sockets created there stay in it.
func inNamespace(pid int, do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := netns.GetFromPid(pid)
		if err != nil {
			result <- fmt.Errorf("opening the host's namespace: %w", err)
			return
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			result <- fmt.Errorf("entering the host's namespace: %w", err)
			return
		}
		result <- do()
	}()
	return <-result
}

// dialInside connects to an address as a process of the host does.
func dialInside(ctx context.Context, pid int, address string) (conn net.Conn, err error) {
	err = inNamespace(pid, func() (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp4", address)
		return err
	})
	return conn, err
}

// resetConnections resets all established TCP connections of the host.
func resetConnections(pid int) error {
	return inNamespace(pid, func() error {
		sockets, err := tcpSockets()
		if err != nil {
			return err
		}
		for _, s := range sockets {
			if s.ID.Destination.IsLoopback() || s.ID.DestinationPort == 0 {
				continue
			}
			local := &net.TCPAddr{IP: s.ID.Source, Port: int(s.ID.SourcePort)}
			remote := &net.TCPAddr{IP: s.ID.Destination, Port: int(s.ID.DestinationPort)}
			if err := netlink.SocketDestroy(local, remote); err != nil && !errors.Is(err, syscall.ENOENT) {
				return fmt.Errorf("resetting the connection with %s: %w", remote, err)
			}
		}
		return nil
	})
}

// listening reports whether a process of the host listens on a TCP port.
func listening(pid, port int) bool {
	found := false
	_ = inNamespace(pid, func() error {
		sockets, err := tcpSockets()
		for _, s := range sockets {
			found = found || s.State == netlink.TCP_LISTEN && int(s.ID.SourcePort) == port
		}
		return err
	})
	return found
}

// tcpSockets lists the TCP sockets of the current namespace. A program that listens on all addresses has IPv6 sockets, with IPv4
// peers.
func tcpSockets() ([]*netlink.Socket, error) {
	var all []*netlink.Socket
	for _, family := range []uint8{syscall.AF_INET, syscall.AF_INET6} {
		sockets, err := netlink.SocketDiagTCP(family)
		if err != nil {
			return nil, fmt.Errorf("listing TCP sockets: %w", err)
		}
		all = append(all, sockets...)
	}
	return all, nil
}
