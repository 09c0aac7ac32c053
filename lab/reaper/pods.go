//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// networks opens the journal of the host's network service. The caller closes it.
func networks() *hns.Store {
	return &hns.Store{Dir: hostspec.OnDrive(driveC, guestapi.NetworksDir), Address: ownAddress}
}

// ownAddress returns the host's address, or "" if it has none.
func ownAddress() string {
	link, err := netlink.LinkByName(hostspec.Link)
	if err != nil {
		return ""
	}
	existing, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil || len(existing) == 0 {
		return ""
	}
	return existing[0].IP.String()
}

// forgetPods removes containers and their networks, as a boot does, and creates the host's network for pods. No program may be
// running on the host.
func (h host) forgetPods() error {
	store := networks()
	defer store.Close()
	failures := errors.Join(
		removeDrives(),
		os.RemoveAll(hostspec.OnDrive(driveC, guestapi.ContainersDir)),
		os.RemoveAll(hostspec.OnDrive(driveC, guestapi.MountsDir)),
		store.Forget(),
		h.filters.apply(store),
		setPodNetworks(nil),
		setAddresses(),
		os.WriteFile(hostspec.OnDrive(driveC, guestapi.AddressFile), []byte(ownAddress()), 0o644))
	if failures != nil {
		return fmt.Errorf("removing pods from the last boot: %w", failures)
	}
	return h.makeNetwork(store)
}

// makeNetwork creates the network of the host's pods, like a network provider.
func (h host) makeNetwork(store *hns.Store) error {
	const id = "0A0B0C0D-0000-4000-8000-00000000AB1E"
	if store.Exists(hns.Network, id) == nil || h.spec.PodNetwork == "" {
		return nil
	}
	_, subnet, err := net.ParseCIDR(h.spec.PodNetwork)
	if err != nil {
		return fmt.Errorf("parsing the pod network: %w", err)
	}
	gateway := slices.Clone(subnet.IP)
	gateway[len(gateway)-1]++
	settings, err := json.Marshal(map[string]any{
		"Name": hostspec.PodNetworkName, "Type": "Overlay", "SchemaVersion": map[string]int{"Major": 2, "Minor": 0},
		"Ipams": []any{map[string]any{"Type": "Static", "Subnets": []any{map[string]any{
			"IpAddressPrefix": subnet.String(), "Routes": []any{map[string]string{"NextHop": gateway.String(), "DestinationPrefix": "0.0.0.0/0"}},
			"Policies": []any{map[string]any{"Type": "VSID", "Settings": map[string]int{"IsolationId": 4097}}},
		}}}},
	})
	if err != nil {
		return fmt.Errorf("encoding the pod network: %w", err)
	}
	_, err = store.Create(hns.Network, id, settings)
	return err
}

// servePods updates the pod addresses and ACLs of the host when a program on the host reports a change. It handles reports
// sequentially.
func (h host) servePods() error {
	return listen(guestapi.AddressesPort, func(conn net.Conn) { reply(conn, guestapi.AddressesDone, h.updateAddresses()) })
}

// listen serves connections of the host's programs sequentially.
func listen(port int, serve func(net.Conn)) error {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listening for the host's programs: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	return nil
}

// reply sends done or the error, and closes the connection.
func reply(conn net.Conn, done string, err error) {
	if err != nil {
		done = err.Error()
	}
	_, _ = conn.Write([]byte(done))
	_ = conn.Close()
}

// updateAddresses sets the ACLs and addresses of endpoints according to the network service. ACLs come first: a pod gets no
// network without them.
func (h host) updateAddresses() error {
	store := networks()
	defer store.Close()
	if err := h.filters.apply(store); err != nil {
		return err
	}
	addresses, err := store.Addresses()
	if err != nil {
		return err
	}
	onHost := addresses[""]
	delete(addresses, "")
	return errors.Join(setAddresses(onHost...), setPodNetworks(addresses))
}

// setAddresses sets the addresses of endpoints without a pod. They are on the loopback link, where Windows programs do not
// treat them as the host's own addresses, but the host still answers ARP requests for them.
func setAddresses(want ...string) error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback link: %w", err)
	}
	existing, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range existing {
		if a.IP.IsLoopback() {
			continue
		}
		if at := slices.Index(want, a.IP.String()); at >= 0 {
			want = slices.Delete(want, at, at+1)
		} else if err := netlink.AddrDel(link, &a); err != nil {
			return fmt.Errorf("removing address %s: %w", a.IP, err)
		}
	}
	for _, address := range want {
		a, err := netlink.ParseAddr(address + "/32")
		if err != nil {
			return fmt.Errorf("parsing address %s: %w", address, err)
		}
		if err := netlink.AddrAdd(link, a); err != nil && !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("adding address %s: %w", address, err)
		}
	}
	return nil
}
