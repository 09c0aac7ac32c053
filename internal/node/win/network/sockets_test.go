package network

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// of builds a table of this kind in Windows' layout.
func (t table) of(sockets ...Socket) []byte {
	content := binary.LittleEndian.AppendUint32(nil, uint32(len(sockets)))
	for _, s := range sockets {
		row := make([]byte, t.row)
		copy(row[t.address:], s.At.Addr().AsSlice())
		binary.BigEndian.PutUint16(row[t.port:], s.At.Port())
		binary.LittleEndian.PutUint32(row[t.pid:], s.PID)
		content = append(content, row...)
	}
	return content
}

// TestSocketTablesHaveWindowsLayout uses one row of each table, byte by byte.
func TestSocketTablesHaveWindowsLayout(t *testing.T) {
	item := []byte{1, 0, 0, 0}
	v6 := netip.MustParseAddr("fe80::1").AsSlice()
	contents := [][]byte{
		slices.Concat(item, []byte{2, 0, 0, 0, 127, 0, 0, 1, 0x28, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x2c, 3, 0, 0}),
		slices.Concat(item, v6, []byte{5, 0, 0, 0, 0x28, 0x0a, 0, 0}, make([]byte, 24), []byte{2, 0, 0, 0, 0x2c, 3, 0, 0}),
		slices.Concat(item, []byte{127, 0, 0, 1, 0x28, 0x0a, 0, 0, 0x2c, 3, 0, 0}),
		slices.Concat(item, v6, []byte{5, 0, 0, 0, 0x28, 0x0a, 0, 0, 0x2c, 3, 0, 0}),
	}
	for n, kind := range tables() {
		want := Socket{kind.udp, netip.MustParseAddrPort([]string{"127.0.0.1:10250", "[fe80::1]:10250"}[n%2]), 812}
		if got := kind.parse(contents[n]); !slices.Equal(got, []Socket{want}) {
			t.Errorf("table %+v: %+v, want %+v", kind, got, want)
		}
	}
}

// FuzzSockets checks that parsing never reads beyond a table, and reads all rows of a complete one.
func FuzzSockets(f *testing.F) {
	for _, kind := range tables() {
		f.Add(kind.of(Socket{At: netip.MustParseAddrPort("10.0.0.7:9182"), PID: 4}, Socket{}))
	}
	f.Add([]byte{255, 255, 255, 255, 0})
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, kind := range tables() {
			got := kind.parse(content)
			if len(got)*kind.row > len(content) {
				t.Fatalf("%d rows of %d bytes", len(got), len(content))
			}
			if again := kind.parse(kind.of(got...)); !slices.Equal(again, got) {
				t.Errorf("%+v, read again %+v", got, again)
			}
		}
	})
}
