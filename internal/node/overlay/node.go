package overlay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Annotations of Nodes that OVN-Kubernetes defines.
const (
	// SubnetAnnotation is the subnet of a Windows node, which OVN-Kubernetes' master writes.
	SubnetAnnotation = "k8s.ovn.org/hybrid-overlay-node-subnet"
	// RouterMACAnnotation is the MAC address of a node's distributed router. A Windows node writes its own; the master writes that of a Linux node.
	RouterMACAnnotation = "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"
	// LinuxSubnetsAnnotation has the subnets of a Linux node by network, as JSON.
	LinuxSubnetsAnnotation = "k8s.ovn.org/node-subnets"
)

// Node has the fields of a Node that the overlay needs.
type Node struct {
	Name    string
	Windows bool
	// Subnet, LinuxSubnets and RouterMAC are the values of the annotations.
	Subnet, LinuxSubnets, RouterMAC string
	// InternalIPs are the addresses of type InternalIP in their order.
	InternalIPs []string
}

// errIncomplete means that the Node is not part of the overlay, or not yet.
var errIncomplete = errors.New("the Node is not part of the overlay yet")

// prefix returns the IPv4 subnet of the node's pods, and reports whether it belongs to the hybrid overlay. A Linux node has a subnet of
// OVN-Kubernetes' own network. A Linux node with another network that was added to the hybrid overlay has a subnet like a Windows node.
func (n Node) prefix() (p netip.Prefix, hybrid bool, err error) {
	if !n.Windows && n.LinuxSubnets != "" {
		p, err := parseLinuxSubnets(n.LinuxSubnets)
		if err == nil {
			return p, false, nil
		}
		if n.Subnet == "" {
			return netip.Prefix{}, false, fmt.Errorf("annotation %s: %w", LinuxSubnetsAnnotation, err)
		}
	}
	if n.Subnet == "" {
		return netip.Prefix{}, true, fmt.Errorf("%w: it has no annotation %s", errIncomplete, SubnetAnnotation)
	}
	if p, err = parseSubnet(n.Subnet); err != nil {
		return netip.Prefix{}, true, fmt.Errorf("annotation %s: %w", SubnetAnnotation, err)
	}
	return p, true, nil
}

// address returns the node's first internal IPv4 address.
func (n Node) address() (netip.Addr, error) {
	err := fmt.Errorf("%w: it has no InternalIP that is an IPv4 address", errIncomplete)
	for _, text := range n.InternalIPs {
		ip, parsing := parseIP(text)
		switch {
		case parsing != nil:
			err = parsing
		case !ip.Is4():
		case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			err = fmt.Errorf("its InternalIP %s cannot be the address of a host", ip)
		default:
			return ip, nil
		}
	}
	return netip.Addr{}, err
}

// addresses returns all of the node's internal IPv4 addresses: Windows may use another one than the first on the adapter.
func (n Node) addresses() (all []netip.Addr) {
	for _, text := range n.InternalIPs {
		if ip, err := parseIP(text); err == nil && ip.Is4() {
			all = append(all, ip)
		}
	}
	return all
}

// maxIP is the length of the longest IPv6 address.
const maxIP = len("0000:0000:0000:0000:0000:ffff:255.255.255.255")

// parseIP parses an address. Kubernetes has accepted leading zeros, and so does OVN-Kubernetes: both read such a number as decimal.
func parseIP(text string) (netip.Addr, error) {
	if len(text) > maxIP {
		return netip.Addr{}, fmt.Errorf("its InternalIP %.100q is not an IP address", text)
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap(), nil
	}
	parts := strings.Split(text, ".")
	for i, part := range parts {
		if len(part) <= len("000") {
			parts[i] = cmp.Or(strings.TrimLeft(part, "0"), part[max(len(part)-1, 0):])
		}
	}
	ip, err := netip.ParseAddr(strings.Join(parts, "."))
	if err != nil || !ip.Is4() {
		return netip.Addr{}, fmt.Errorf("its InternalIP %.100q is not an IP address", text)
	}
	return ip, nil
}

// remote returns the node's subnet as this host needs it in the Host Network Service.
func (n Node) remote(prefix netip.Prefix) (hns.RemoteSubnet, error) {
	if n.RouterMAC == "" {
		return hns.RemoteSubnet{}, fmt.Errorf("%w: it has no annotation %s", errIncomplete, RouterMACAnnotation)
	}
	address, err := n.address()
	if err != nil {
		return hns.RemoteSubnet{}, err
	}
	mac, err := parseMAC(n.RouterMAC)
	if err != nil {
		return hns.RemoteSubnet{}, fmt.Errorf("annotation %s: %w", RouterMACAnnotation, err)
	}
	return hns.RemoteSubnet{Prefix: prefix, VNI: VNI, Host: address, RouterMAC: mac}, nil
}

// Limits of the length of a node's subnet.
const minBits, maxBits = 1, 30

// parseSubnet parses an IPv4 subnet that is large enough for a router and a pod.
func parseSubnet(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.100q is not a subnet such as 10.132.1.0/24", s)
	}
	if !p.Addr().Is4() || p.Bits() < minBits || p.Bits() > maxBits {
		return netip.Prefix{}, fmt.Errorf("%.100q is not an IPv4 subnet with %d to %d bits", s, minBits, maxBits)
	}
	return p.Masked(), nil
}

// parseLinuxSubnets parses the first IPv4 subnet of OVN-Kubernetes' default network: a string or a list of strings.
func parseLinuxSubnets(s string) (netip.Prefix, error) {
	var networks struct {
		Default json.RawMessage `json:"default"`
	}
	if err := json.Unmarshal([]byte(s), &networks); err != nil {
		return netip.Prefix{}, fmt.Errorf("%.100q is not a JSON object of networks", s)
	}
	var item string
	var several []string
	if json.Unmarshal(networks.Default, &item) == nil {
		several = []string{item}
	} else if err := json.Unmarshal(networks.Default, &several); err != nil {
		return netip.Prefix{}, fmt.Errorf("network default in %.100q has neither a subnet nor a list of subnets", s)
	}
	for _, subnet := range several {
		if p, err := parseSubnet(subnet); err == nil {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("network default in %.100q has no IPv4 subnet", s)
}

// parseMAC parses the MAC address of a router in any common form, and returns it in Windows' form.
func parseMAC(s string) (string, error) {
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || mac.String() == "00:00:00:00:00:00" {
		return "", fmt.Errorf("%.100q is not a router address such as 00-15-5D-0A-0B-0C", s)
	}
	return strings.ToUpper(strings.ReplaceAll(mac.String(), ":", "-")), nil
}

// sameMAC compares MAC addresses in possibly different forms.
func sameMAC(a, b string) bool {
	x, errX := parseMAC(a)
	y, errY := parseMAC(b)
	return errX == nil && errY == nil && x == y
}
