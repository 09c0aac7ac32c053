package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// Adapters returns the network interfaces that are up, without the loopback.
func Adapters() ([]*windows.IpAdapterAddresses, error) {
	buffer, err := scm.Answer(func(buffer *byte, size uint32, needed *uint32) error {
		*needed = size
		const skip = windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(buffer))
		return windows.GetAdaptersAddresses(windows.AF_UNSPEC, skip, 0, first, needed)
	})
	if errors.Is(err, windows.ERROR_NO_DATA) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []*windows.IpAdapterAddresses
	for a := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buffer[0])); a != nil; a = a.Next {
		if a.OperStatus == windows.IfOperStatusUp && a.IfType != windows.IF_TYPE_SOFTWARE_LOOPBACK {
			found = append(found, a)
		}
	}
	return found, nil
}

const duplicate = 2 // IpDadStateDuplicate: another host has the address, so Windows does not use it

// Addresses returns the addresses of an adapter, each with the prefix of its subnet.
func Addresses(a *windows.IpAdapterAddresses) []netip.Prefix {
	all := []netip.Prefix{}
	for u := a.FirstUnicastAddress; u != nil; u = u.Next {
		if ip, ok := netip.AddrFromSlice(u.Address.IP()); ok && u.DadState != duplicate {
			ip = ip.Unmap()
			all = append(all, netip.PrefixFrom(ip, int(u.OnLinkPrefixLength)))
		}
	}
	return all
}

// InterfaceWith returns the index of the interface with an address. If there is none, the error is fs.ErrNotExist.
func InterfaceWith(address netip.Addr) (uint32, error) {
	a, err := adapterWith(address)
	if err != nil {
		return 0, err
	}
	return a.IfIndex, nil
}

func adapterWith(address netip.Addr) (*windows.IpAdapterAddresses, error) {
	list, err := Adapters()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	at := slices.IndexFunc(list, func(a *windows.IpAdapterAddresses) bool {
		return slices.ContainsFunc(Addresses(a), func(p netip.Prefix) bool { return p.Addr() == address })
	})
	if at < 0 {
		return nil, fmt.Errorf("an interface with address %s: %w", address, fs.ErrNotExist)
	}
	return list[at], nil
}
