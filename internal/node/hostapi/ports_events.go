package hostapi

import (
	"context"
	"net/netip"
	"time"
)

// EventLogs are the event logs of Windows and its services.
type EventLogs interface {
	// Read returns the newest events of a channel with a record number above after, oldest first, at most limit. If no record number reaches after,
	// the log was cleared, and all of its events count. It is quick. A channel that does not exist is ErrNotFound; if Windows cannot read events, the
	// error is errors.ErrUnsupported.
	Read(ctx context.Context, channel string, after uint64, limit int) ([]Event, error)
}

// Event is a Windows event.
type Event struct {
	// Record is its number in the channel. It increases until the log is cleared.
	Record uint64
	// Time is when it was written, in UTC.
	Time time.Time
	// Provider is the program that wrote the event. ID is the provider's code for it.
	Provider string
	ID       uint32
	Level    EventLevel
	// Message is the text for people, or the event's data if the provider's texts are not on the host.
	Message string
}

// EventLevel is the level of an event, as in the Windows Event Viewer.
type EventLevel string

// Levels of events.
const (
	EventCritical    EventLevel = "Critical"
	EventError       EventLevel = "Error"
	EventWarning     EventLevel = "Warning"
	EventInformation EventLevel = "Information"
	EventVerbose     EventLevel = "Verbose"
)

// Inventory returns what reports include about Windows, and what is checked, in addition to the other ports.
type Inventory interface {
	// Routes returns the host's IPv4 routes in the order of Windows.
	Routes(ctx context.Context) ([]RouteEntry, error)
	// FirewallRules returns the rules of the operator's group, even if others changed them. It returns ErrNoFirewall if rules cannot be read.
	FirewallRules(ctx context.Context) ([]FirewallEntry, error)
	// Version returns the build of Windows and its revision: 20348 and 2402 for 10.0.20348.2402. The revision is 0 if it cannot be read. It is quick.
	Version(ctx context.Context) (build, revision int, err error)
	// Commit returns how much memory is committed to programs, and how much Windows can commit: physical memory and paging files. It is quick.
	Commit(ctx context.Context) (Commit, error)
	// Ports returns the port ranges that Windows assigns itself or reserves.
	Ports(ctx context.Context) (Ports, error)
}

// RouteEntry is a row of the routing table.
type RouteEntry struct {
	To      netip.Prefix `json:"to"`
	Gateway netip.Addr   `json:"gateway"`
	// Interface is the index of the interface, as in wicdapi.Interface.
	Interface uint32 `json:"interface"`
	Metric    uint32 `json:"metric"`
}

// FirewallEntry is a firewall rule in the spelling of Windows.
type FirewallEntry struct {
	Name            string `json:"name"`
	Enabled         bool   `json:"enabled"`
	Protocol        string `json:"protocol"`
	LocalPorts      string `json:"localPorts"`
	RemoteAddresses string `json:"remoteAddresses"`
}
