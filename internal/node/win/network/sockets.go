package network

import (
	"encoding/binary"
	"net/netip"
)

// Socket is a listening TCP socket or any UDP socket.
type Socket struct {
	UDP bool
	At  netip.AddrPort
	PID uint32
}

// table describes a table of GetExtendedTcpTable or GetExtendedUdpTable and the offsets of the fields in its rows (iprtrmib.h, tcpmib.h, udpmib.h).
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

// parse parses a table as Windows returns it: the number of rows, followed by the rows without gaps. It does not read beyond the content.
func (t table) parse(content []byte) (sockets []Socket) {
	const counter = 4
	if len(content) < counter {
		return nil
	}
	count := binary.LittleEndian.Uint32(content)
	for rows := content[counter:]; count > 0 && len(rows) >= t.row; count, rows = count-1, rows[t.row:] {
		address, _ := netip.AddrFromSlice(rows[t.address : t.address+t.length])
		port := binary.BigEndian.Uint16(rows[t.port:]) // in network byte order, in the first two of four bytes
		sockets = append(sockets, Socket{t.udp, netip.AddrPortFrom(address, port), binary.LittleEndian.Uint32(rows[t.pid:])})
	}
	return sockets
}
