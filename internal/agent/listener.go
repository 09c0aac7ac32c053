package agent

import (
	"fmt"
	"net/netip"
	"strings"
)

// Listener is a program that listens on a port of TCP, or has one of UDP.
type Listener struct {
	UDP  bool   `json:"udp,omitempty"`
	Port uint16 `json:"port"`
	// Address is the only one at which it listens; 0.0.0.0 or :: for all.
	Address netip.Addr `json:"address"`
	// PID is its process; 4 is Windows itself. Program is the path of its file; empty where Windows does not say it.
	PID     uint32 `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
}

// windowsPID is the process of Windows' kernel, which listens for services that use its HTTP server.
const windowsPID = 4

// String is the listener for people: C:\x\agent.exe (process 812) at 0.0.0.0:9182.
func (l Listener) String() string {
	program := l.Program
	switch {
	case program == "" && l.PID == windowsPID:
		program = "Windows itself"
	case program == "":
		program = "a program that Windows does not name"
	}
	return fmt.Sprintf("%s (process %d) at %s", program, l.PID, netip.AddrPortFrom(l.Address, l.Port))
}

// Ours tells whether the program is in the folder of nodes, which the original operator uses, too.
func (l Listener) Ours() bool { return strings.HasPrefix(strings.ToLower(l.Program), `c:\k\`) }
