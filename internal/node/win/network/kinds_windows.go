package network

import (
	"net"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Kind is the kind of an adapter, as reported by its driver (MIB_IF_ROW2).
type Kind struct {
	Name, MAC string
	// Hardware is true for hardware, and for virtual hardware in a virtual machine. Connector is true if a cable can be plugged in.
	Hardware, Connector bool
}

// Bits of InterfaceAndOperStatusFlags.
const (
	isHardware = 1 << iota
	isFilter
	hasConnector
)

// Kinds returns the kinds of all adapters by LUID, including those without addresses. It is empty if Windows, like Wine, does not return them.
func Kinds() map[uint64]Kind {
	var table *windows.MibIfTable2
	if windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetIfTable2Ex").Find() != nil ||
		windows.GetIfTable2Ex(windows.MibIfEntryNormalWithoutStatistics, &table) != nil || table == nil {
		return nil
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	kinds := map[uint64]Kind{}
	for _, row := range unsafe.Slice(&table.Table[0], table.NumEntries) {
		flags := row.InterfaceAndOperStatusFlags
		if flags&isFilter != 0 || row.Type == windows.IF_TYPE_SOFTWARE_LOOPBACK || row.PhysicalAddressLength > uint32(len(row.PhysicalAddress)) {
			continue
		}
		kinds[row.InterfaceLuid] = Kind{
			Name: windows.UTF16ToString(row.Alias[:]), MAC: MAC(row.PhysicalAddress[:row.PhysicalAddressLength]),
			Hardware: flags&isHardware != 0, Connector: flags&hasConnector != 0,
		}
	}
	return kinds
}

// MAC formats a link-layer address, such as 00-15-5d-0a-0b-0c; empty if there is none.
func MAC(address []byte) string {
	return strings.ReplaceAll(net.HardwareAddr(address).String(), ":", "-")
}
