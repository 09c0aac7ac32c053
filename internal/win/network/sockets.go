package network

import (
	"encoding/binary"
	"net/netip"
)

// Socket is one of TCP that listens, or one of UDP.
type Socket struct {
	UDP bool
	At  netip.AddrPort
	PID uint32
}

// table is one of GetExtendedTcpTable or GetExtendedUdpTable: which it is, and where its rows have what is read (iprtrmib.h, tcpmib.h, udpmib.h).
type table struct {
	udp             bool
	function        string
	class, family   uint32
	row             int // bytes
	address, length int
	port, pid       int
}

func tables() []table {
	const (
		inet, inet6              = 2, 23
		listenersOfTCP, allUDP   = 3, 1 // TCP_TABLE_OWNER_PID_LISTENER, UDP_TABLE_OWNER_PID
		functionTCP, functionUDP = "GetExtendedTcpTable", "GetExtendedUdpTable"
	)
	return []table{
		{function: functionTCP, class: listenersOfTCP, family: inet, row: 24, address: 4, length: 4, port: 8, pid: 20},
		{function: functionTCP, class: listenersOfTCP, family: inet6, row: 56, address: 0, length: 16, port: 20, pid: 52},
		{udp: true, function: functionUDP, class: allUDP, family: inet, row: 12, address: 0, length: 4, port: 4, pid: 8},
		{udp: true, function: functionUDP, class: allUDP, family: inet6, row: 28, address: 0, length: 16, port: 20, pid: 24},
	}
}

// parse reads a table as Windows returns it: the number of rows, and the rows without a gap. Rows beyond what was returned are not read.
func (t table) parse(content []byte) (sockets []Socket) {
	const counter = 4
	if len(content) < counter {
		return nil
	}
	count := binary.LittleEndian.Uint32(content)
	for rows := content[counter:]; count > 0 && len(rows) >= t.row; count, rows = count-1, rows[t.row:] {
		address, _ := netip.AddrFromSlice(rows[t.address : t.address+t.length])
		port := binary.BigEndian.Uint16(rows[t.port:]) // in network order, in the first two of four bytes
		sockets = append(sockets, Socket{t.udp, netip.AddrPortFrom(address, port), binary.LittleEndian.Uint32(rows[t.pid:])})
	}
	return sockets
}
