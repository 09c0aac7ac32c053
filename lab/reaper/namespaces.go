//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// A pod network is the kernel's network namespace for a namespace of the network service. A link connects it to the host, which
// forwards its packets and answers ARP requests for its addresses. It is mounted at a file while the namespace of the network
// service exists. Afterwards, it ends with its last process.

// podNetworkFile returns the file at which a pod network is mounted.
func podNetworkFile(namespace string) string {
	return filepath.Join(hostspec.Networks, hns.Key(namespace))
}

// podLink returns the name of the host's end of the link to a pod network. Names of links have at most 15 characters.
func podLink(namespace string) string {
	return hostspec.PodLinkPrefix + filepath.Base(podNetworkFile(namespace))[:8]
}

// setPodNetworks creates missing pod networks with their addresses, and removes all others. want has addresses by namespace.
func setPodNetworks(want map[string][]string) error {
	all, err := os.ReadDir(hostspec.Networks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing the networks of pods: %w", err)
	}
	for _, existing := range all {
		if want[existing.Name()] == nil {
			if err := removePodNetwork(existing.Name()); err != nil {
				return fmt.Errorf("removing network %s: %w", existing.Name(), err)
			}
		}
	}
	for namespace, addresses := range want {
		if _, err := os.Stat(podNetworkFile(namespace)); err == nil {
			continue // addresses of endpoints do not change
		}
		if err := makePodNetwork(namespace, addresses); err != nil {
			return errors.Join(fmt.Errorf("creating network %s: %w", namespace, err), removePodNetwork(namespace))
		}
	}
	return nil
}

func removePodNetwork(namespace string) error {
	if link, err := netlink.LinkByName(podLink(namespace)); err == nil {
		if err := netlink.LinkDel(link); err != nil {
			return err
		}
	}
	file := podNetworkFile(namespace)
	if err := syscall.Unmount(file, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(file)
}

func makePodNetwork(namespace string, addresses []string) error {
	file := podNetworkFile(namespace)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return err
	}
	if err := mountNewNetwork(file); err != nil {
		return err
	}
	inside, err := netns.GetFromPath(file)
	if err != nil {
		return err
	}
	defer inside.Close()
	name := podLink(namespace)
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: hostspec.Link, PeerNamespace: netlink.NsFd(inside)}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("creating link %s: %w", name, err)
	}
	if err := answerForOthers(name); err != nil {
		return err
	}
	if err := connectPod(inside, addresses); err != nil {
		return err
	}
	return routeToPod(name, addresses)
}

// mountNewNetwork creates a network namespace, and mounts it at a file.
func mountNewNetwork(file string) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread cannot be reused
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			err = bind("/proc/thread-self/ns/net", file)
		}
		done <- err
	}()
	return <-done
}

// connectPod assigns addresses to a pod's end of its link, and routes all other addresses to the link.
func connectPod(inside netns.NsHandle, addresses []string) error {
	pod, err := netlink.NewHandleAt(inside)
	if err != nil {
		return err
	}
	defer pod.Close()
	var link netlink.Link
	for _, name := range []string{"lo", hostspec.Link} {
		if link, err = pod.LinkByName(name); err == nil {
			err = pod.LinkSetUp(link)
		}
		if err != nil {
			return fmt.Errorf("enabling link %s: %w", name, err)
		}
	}
	for _, address := range addresses {
		a, err := netlink.ParseAddr(address + "/32")
		if err == nil {
			err = pod.AddrAdd(link, a)
		}
		if err != nil {
			return fmt.Errorf("adding address %s: %w", address, err)
		}
	}
	_, everything, err := net.ParseCIDR("0.0.0.0/0")
	if err != nil {
		return err
	}
	return pod.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: everything, Scope: netlink.SCOPE_LINK})
}

// routeToPod enables the host's end of a link to a pod, and adds routes to the pod's addresses.
func routeToPod(name string, addresses []string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("enabling link %s: %w", name, err)
	}
	own := net.ParseIP(ownAddress())
	for _, address := range addresses {
		to := &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(32, 32)}
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Src: own, Scope: netlink.SCOPE_LINK}); err != nil {
			return fmt.Errorf("adding a route to %s: %w", address, err)
		}
	}
	return nil
}

// forwardPackets configures the host as a router between its pods and its network.
func forwardPackets() error {
	for file, value := range map[string]string{"ip_forward": "1", "conf/all/send_redirects": "0", "conf/default/send_redirects": "0"} {
		if err := writeIPv4(file, value); err != nil {
			return err
		}
	}
	return answerForOthers(hostspec.Link)
}

// answerForOthers enables proxy ARP on a link: the host answers immediately for all addresses that it reaches through other links.
func answerForOthers(link string) error {
	for file, value := range map[string]string{"conf/" + link + "/proxy_arp": "1", "neigh/" + link + "/proxy_delay": "0", "conf/" + link + "/send_redirects": "0"} {
		if err := writeIPv4(file, value); err != nil {
			return err
		}
	}
	return nil
}

func writeIPv4(file, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4", file), []byte(value), 0o644); err != nil {
		return fmt.Errorf("writing kernel setting %s: %w", file, err)
	}
	return nil
}

// enterNetwork moves this thread, and the program that it becomes, into the pod network of a container.
func enterNetwork(drive string) error {
	ns, err := netns.GetFromPath(networkOf(drive))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the container's network: %w", err)
	}
	defer ns.Close()
	if err := netns.Set(ns); err != nil {
		return fmt.Errorf("entering the container's network: %w", err)
	}
	return nil
}

// networkOf returns the symbolic link to the file of a container's pod network.
func networkOf(drive string) string { return filepath.Join(hostspec.Drives, drive, "network") }

// linkNetwork creates the symbolic link to the pod network of a container.
func linkNetwork(drive, namespace string) error {
	if namespace == "" {
		return nil
	}
	if err := os.Symlink(podNetworkFile(namespace), networkOf(drive)); err != nil {
		return fmt.Errorf("linking the network of a container: %w", err)
	}
	return nil
}
