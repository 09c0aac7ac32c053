package wicdapi

import (
	"fmt"
	"net/netip"
	"strings"
)

// Listener is a program that listens on a TCP port or has bound a UDP port.
type Listener struct {
	UDP  bool   `json:"udp,omitempty"`
	Port uint16 `json:"port"`
	// Address is the address at which it listens; 0.0.0.0 or :: for all.
	Address netip.Addr `json:"address"`
	// PID is its process; 4 is Windows itself. Program is the path of its file; empty if Windows does not report it.
	PID     uint32 `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
}

// windowsPID is the kernel's process, which listens for services that use the HTTP server of Windows.
const windowsPID = 4

// String describes the listener: C:\x\agent.exe (process 812) at 0.0.0.0:9182.
func (l Listener) String() string {
	program := l.Program
	switch {
	case program == "" && l.PID == windowsPID:
		program = "Windows itself"
	case program == "":
		program = "an unknown program"
	}
	return fmt.Sprintf("%s (process %d) at %s", program, l.PID, netip.AddrPortFrom(l.Address, l.Port))
}

// Ours reports whether the program is in the folder of nodes, which the original operator uses, too.
func (l Listener) Ours() bool { return strings.HasPrefix(strings.ToLower(l.Program), `c:\k\`) }
