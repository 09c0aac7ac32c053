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

// ownAddress is the host's address.
func ownAddress() string {
	link, err := netlink.LinkByName(hostspec.Link)
	if err != nil {
		return ""
	}
	have, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil || len(have) == 0 {
		return ""
	}
	return have[0].IP.String()
}

// forgetPods does for containers and their networks what a boot does: it removes them and creates the host's network for pods. No
// program of the host may run.
func (h host) forgetPods() error {
	store := networks()
	defer store.Close()
	failures := errors.Join(
		removeDrives(),
		os.RemoveAll(hostspec.OnDrive(driveC, guestapi.ContainersDir)),
		os.RemoveAll(hostspec.OnDrive(driveC, guestapi.MountsDir)),
		store.Forget(),
		setPodNetworks(nil),
		setAddresses(),
		os.WriteFile(hostspec.OnDrive(driveC, guestapi.AddressFile), []byte(ownAddress()), 0o644))
	if failures != nil {
		return fmt.Errorf("removing the pods of the last boot: %w", failures)
	}
	return h.makeNetwork(store)
}

// makeNetwork creates the network of the host's pods, as a network provider would.
func (h host) makeNetwork(store *hns.Store) error {
	const id = "0A0B0C0D-0000-4000-8000-00000000AB1E"
	if store.Exists(hns.Network, id) == nil || h.spec.PodNetwork == "" {
		return nil
	}
	_, of, err := net.ParseCIDR(h.spec.PodNetwork)
	if err != nil {
		return fmt.Errorf("parsing the pod network: %w", err)
	}
	gateway := slices.Clone(of.IP)
	gateway[len(gateway)-1]++
	settings, err := json.Marshal(map[string]any{
		"Name": hostspec.PodNetworkName, "Type": "Overlay", "SchemaVersion": map[string]int{"Major": 2, "Minor": 0},
		"Ipams": []any{map[string]any{"Type": "Static", "Subnets": []any{map[string]any{
			"IpAddressPrefix": of.String(), "Routes": []any{map[string]string{"NextHop": gateway.String(), "DestinationPrefix": "0.0.0.0/0"}},
			"Policies": []any{map[string]any{"Type": "VSID", "Settings": map[string]int{"IsolationId": 4097}}},
		}}}},
	})
	if err != nil {
		return fmt.Errorf("encoding the pod network: %w", err)
	}
	_, err = store.Create(hns.Network, id, settings)
	return err
}

// servePods updates the pod addresses of the host whenever a program of the host reports that they changed, one report after the other.
func servePods() error {
	return listen(guestapi.AddressesPort, func(conn net.Conn) { reply(conn, guestapi.AddressesDone, podAddresses()) })
}

// listen has connections of the host's programs served, in their order.
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

// reply answers done, or with an error, and closes the connection.
func reply(conn net.Conn, done string, err error) {
	if err != nil {
		done = err.Error()
	}
	_, _ = conn.Write([]byte(done))
	_ = conn.Close()
}

func podAddresses() error {
	store := networks()
	defer store.Close()
	addresses, err := store.Addresses()
	if err != nil {
		return err
	}
	onHost := addresses[""]
	delete(addresses, "")
	return errors.Join(setAddresses(onHost...), setPodNetworks(addresses))
}

// setAddresses gives the host exactly these addresses of endpoints without a pod, in addition to its own. They are on the loopback link, where
// Windows programs do not treat them as the host's own; the host still answers for them on its network.
func setAddresses(wanted ...string) error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback link: %w", err)
	}
	have, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range have {
		if a.IP.IsLoopback() {
			continue
		}
		if at := slices.Index(wanted, a.IP.String()); at >= 0 {
			wanted = slices.Delete(wanted, at, at+1)
		} else if err := netlink.AddrDel(link, &a); err != nil {
			return fmt.Errorf("removing address %s: %w", a.IP, err)
		}
	}
	for _, address := range wanted {
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
