package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

// Values of IP_ADAPTER_ADDRESSES and its lists (iptypes.h).
const (
	dhcpEnabled    = 0x4 // IP_ADAPTER_DHCP_ENABLED
	originManual   = 1   // IpPrefixOriginManual
	transientFlag  = 0x2 // IP_ADAPTER_ADDRESS_TRANSIENT: of a failover cluster
	preferredState = 4   // IpDadStatePreferred
)

// Address is an address of an interface with its state.
type Address struct {
	Prefix netip.Prefix
	// Static addresses are configured manually, neither by DHCP nor by a router.
	Static bool
	// State is Preferred, Deprecated, Tentative or Invalid.
	State string
	// SkipAsSource means that Windows does not use the address for outgoing connections. Transient addresses belong to a failover cluster.
	SkipAsSource, Transient bool
}

// States returns the addresses of an adapter, each with its state.
func States(a *windows.IpAdapterAddresses) []Address {
	skipped := skippedAsSource()
	names := []string{"Invalid", "Tentative", "Duplicate", "Deprecated", "Preferred"}
	var all []Address
	for u := a.FirstUnicastAddress; u != nil; u = u.Next {
		ip, ok := netip.AddrFromSlice(u.Address.IP())
		if !ok || u.DadState == duplicate {
			continue
		}
		ip = ip.Unmap()
		current := Address{
			Prefix: netip.PrefixFrom(ip, int(u.OnLinkPrefixLength)), Static: u.PrefixOrigin == originManual, State: "Invalid",
			SkipAsSource: skipped[place{a.IfIndex, ip}], Transient: u.Flags&transientFlag != 0,
		}
		if u.DadState >= 0 && int(u.DadState) < len(names) {
			current.State = names[u.DadState]
		}
		all = append(all, current)
	}
	return all
}

// place is an address on an interface.
type place struct {
	index uint32
	ip    netip.Addr
}

// skippedAsSource returns the IPv4 addresses that Windows does not use for outgoing connections. GetAdaptersAddresses does not return this.
func skippedAsSource() map[place]bool {
	skipped := map[place]bool{}
	var table *windows.MibUnicastIpAddressTable
	if iphlpapi("GetUnicastIpAddressTable").Find() != nil || windows.GetUnicastIpAddressTable(windows.AF_INET, &table) != nil {
		return skipped
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	for _, row := range unsafe.Slice(&table.Table[0], table.NumEntries) {
		if row.SkipAsSource != 0 {
			skipped[place{row.InterfaceIndex, rowIPv4(&row)}] = true
		}
	}
	return skipped
}

// rowIPv4 returns the address in the SOCKADDR_INET of a row.
func rowIPv4(row *windows.MibUnicastIpAddressRow) netip.Addr {
	return IPv4(*(*windows.RawSockaddrInet)(unsafe.Pointer(&row.Address)))
}

func iphlpapi(name string) *windows.LazyProc {
	return windows.NewLazySystemDLL("iphlpapi.dll").NewProc(name)
}

// DNSServers returns the DNS servers of an adapter, of both families.
func DNSServers(a *windows.IpAdapterAddresses) []netip.Addr {
	var all []netip.Addr
	for d := a.FirstDnsServerAddress; d != nil; d = d.Next {
		if ip, ok := netip.AddrFromSlice(d.Address.IP()); ok {
			all = append(all, ip.Unmap())
		}
	}
	return all
}

// hasStaticDNS reports whether DNS servers or the suffix of an adapter are configured manually: those of DHCP are stored under other names.
func hasStaticDNS(adapter string) bool {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\Interfaces\`+adapter, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return false
	}
	defer key.Close()
	servers, _, _ := key.GetStringValue("NameServer")
	suffix, _, _ := key.GetStringValue("Domain")
	return servers != "" || suffix != ""
}

// HasDHCP reports whether an adapter gets its IPv4 settings by DHCP.
func HasDHCP(a *windows.IpAdapterAddresses) bool { return a.Flags&dhcpEnabled != 0 }

// MTU returns the MTU of IPv4 on an adapter.
func MTU(a *windows.IpAdapterAddresses) uint32 {
	if row, err := interfaceRow(a.IfIndex); err == nil {
		return row.NlMtu
	}
	return a.Mtu
}

// Interfaces implements hostapi.Adapters and overlay.Adapters.
type Interfaces struct{}

// Adapters returns the interfaces with the IPv4 settings that creating a pod network may lose.
func (Interfaces) Adapters(ctx context.Context) ([]hostnetwork.Adapter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list, err := Adapters()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var all []hostnetwork.Adapter
	for _, a := range list {
		current := hostnetwork.Adapter{
			Name: windows.UTF16PtrToString(a.FriendlyName), Index: a.IfIndex, Suffix: windows.UTF16PtrToString(a.DnsSuffix), DHCP: HasDHCP(a), MTU: a.Mtu,
			StaticDNS: hasStaticDNS(windows.BytePtrToString(a.AdapterName)),
		}
		for _, s := range States(a) {
			if s.Prefix.Addr().Is4() && s.State == "Preferred" && !s.Transient {
				current.Addresses = append(current.Addresses, hostnetwork.Address{Prefix: s.Prefix, Static: s.Static, SkipAsSource: s.SkipAsSource})
			}
		}
		for _, server := range DNSServers(a) {
			if server.Is4() {
				current.DNS = append(current.DNS, server)
			}
		}
		if row, err := interfaceRow(a.IfIndex); err == nil {
			current.MTU = row.NlMtu
			if row.UseAutomaticMetric == 0 {
				current.Metric = row.Metric
			}
		}
		all = append(all, current)
	}
	return all, nil
}

// interfaceRow reads the settings of IPv4 on an interface.
func interfaceRow(index uint32) (row windows.MibIpInterfaceRow, err error) {
	if err := iphlpapi("GetIpInterfaceEntry").Find(); err != nil {
		return row, fmt.Errorf("reading the settings of an interface: %w (%w)", errors.ErrUnsupported, err)
	}
	row.Family, row.InterfaceIndex = windows.AF_INET, index
	return row, windows.GetIpInterfaceEntry(&row)
}

// Restore restores what an interface with an address lost. It continues after a failure.
func (Interfaces) Restore(ctx context.Context, address netip.Addr, l hostnetwork.Loss) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a, err := adapterWith(address)
	if err != nil {
		return err
	}
	var errs error
	for _, lost := range l.Addresses {
		errs = errors.Join(errs, addAddress(a.IfIndex, lost))
	}
	if l.MTU != 0 || l.Metric != 0 {
		errs = errors.Join(errs, setInterface(a.IfIndex, l.MTU, l.Metric))
	}
	if len(l.DNS) > 0 || l.Suffix != "" {
		errs = errors.Join(errs, setDNS(windows.BytePtrToString(a.AdapterName), l.DNS, l.Suffix))
	}
	return errs
}

// succeeded calls a function of iphlpapi.dll and converts its result to an error.
func succeeded(what string, p *windows.LazyProc, args ...uintptr) error {
	if err := p.Find(); err != nil {
		return fmt.Errorf("%s: %w (%w)", what, errors.ErrUnsupported, err)
	}
	if code, _, _ := p.Call(args...); code != 0 {
		return fmt.Errorf("%s: %w", what, syscall.Errno(code))
	}
	return nil
}

func addAddress(index uint32, lost hostnetwork.Address) error {
	var row windows.MibUnicastIpAddressRow
	initialize := iphlpapi("InitializeUnicastIpAddressEntry")
	if err := initialize.Find(); err != nil {
		return fmt.Errorf("adding address %s: %w (%w)", lost.Prefix, errors.ErrUnsupported, err)
	}
	_, _, _ = initialize.Call(uintptr(unsafe.Pointer(&row))) // returns nothing
	setIPv4((*windows.RawSockaddrInet)(unsafe.Pointer(&row.Address)), lost.Prefix.Addr())
	row.InterfaceIndex, row.OnLinkPrefixLength, row.DadState = index, uint8(lost.Prefix.Bits()), preferredState
	if lost.SkipAsSource {
		row.SkipAsSource = 1
	}
	err := succeeded("adding address "+lost.Prefix.String(), iphlpapi("CreateUnicastIpAddressEntry"), uintptr(unsafe.Pointer(&row)))
	if errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
		return nil
	}
	return err
}

func setInterface(index, mtu, metric uint32) error {
	row, err := interfaceRow(index)
	if err != nil {
		return err
	}
	row.SitePrefixLength = 0 // otherwise IPv4 rejects the row (SetIpInterfaceEntry)
	if mtu != 0 {
		row.NlMtu = mtu
	}
	if metric != 0 {
		row.UseAutomaticMetric, row.Metric = 0, metric
	}
	return succeeded("setting MTU and metric", iphlpapi("SetIpInterfaceEntry"), uintptr(unsafe.Pointer(&row)))
}

// dnsSettings is DNS_INTERFACE_SETTINGS (netioapi.h), which golang.org/x/sys lacks.
type dnsSettings struct {
	version                        uint32
	flags                          uint64
	domain, nameServer, searchList *uint16
	registration, registerName     uint32
	llmnr, queryName               uint32
	profileNameServer              *uint16
}

// Values of dnsSettings.
const (
	dnsVersion1   = 1
	dnsNameServer = 0x2
	dnsDomain     = 0x20
)

// setDNS sets DNS servers and suffix of an interface. Windows before build 19041 lacks the call.
func setDNS(adapter string, servers []netip.Addr, suffix string) error {
	guid, err := windows.GUIDFromString(adapter)
	if err != nil {
		return fmt.Errorf("setting DNS servers of interface %q: %w", adapter, err)
	}
	s := dnsSettings{version: dnsVersion1}
	if len(servers) > 0 {
		var texts []string
		for _, server := range servers {
			texts = append(texts, server.String())
		}
		s.flags |= dnsNameServer
		if s.nameServer, err = windows.UTF16PtrFromString(strings.Join(texts, ",")); err != nil {
			return err
		}
	}
	if suffix != "" {
		s.flags |= dnsDomain
		if s.domain, err = windows.UTF16PtrFromString(suffix); err != nil {
			return err
		}
	}
	// The GUID is passed by value. On amd64, a structure of its size is passed by reference.
	return succeeded("setting DNS servers", iphlpapi("SetInterfaceDnsSettings"), uintptr(unsafe.Pointer(&guid)), uintptr(unsafe.Pointer(&s)))
}
