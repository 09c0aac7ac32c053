package host

import (
	"context"
	"net/netip"
	"time"
)

// EventLogs are the logs in which Windows and its services write events.
type EventLogs interface {
	// Read returns the newest events of a channel whose record is greater than after, oldest first and at most limit of them. Where no
	// record is as great as after, the log was cleared: then all of its events count. It is quick. A channel that does not exist is
	// ErrNotFound, a Windows whose events cannot be read is errors.ErrUnsupported.
	Read(ctx context.Context, channel string, after uint64, limit int) ([]Event, error)
}

// Event is one event of Windows.
type Event struct {
	// Record is its number in the channel. Later events have greater ones, until somebody clears the log.
	Record uint64
	// Time is when it was written, in UTC.
	Time time.Time
	// Provider is the program that wrote it, and ID what it means for that provider.
	Provider string
	ID       uint32
	Level    EventLevel
	// Message is for people. Where the provider's texts are not on the host, it is the event's data.
	Message string
}

// EventLevel is the level of an event, as Windows' event viewer names it.
type EventLevel string

// Levels of events.
const (
	EventCritical    EventLevel = "Critical"
	EventError       EventLevel = "Error"
	EventWarning     EventLevel = "Warning"
	EventInformation EventLevel = "Information"
	EventVerbose     EventLevel = "Verbose"
)

// Inventory is what reports say of Windows besides what other ports know.
type Inventory interface {
	// Routes returns the host's IPv4 routes, in the order in which Windows has them.
	Routes(ctx context.Context) ([]RouteEntry, error)
	// FirewallRules returns the rules of our group, whoever changed them. Where rules cannot be read, that is ErrNoFirewall.
	FirewallRules(ctx context.Context) ([]FirewallEntry, error)
	// Version says which build of Windows runs, and its revision: 20348 and 2402 of 10.0.20348.2402. A revision that cannot be read is 0. It
	// is quick.
	Version(ctx context.Context) (build, revision int, err error)
}

// RouteEntry is a row of the table of routes.
type RouteEntry struct {
	To      netip.Prefix `json:"to"`
	Gateway netip.Addr   `json:"gateway"`
	// Interface is the index of the interface, as in agent.Interface.
	Interface uint32 `json:"interface"`
	Metric    uint32 `json:"metric"`
}

// FirewallEntry is a rule of the firewall as Windows spells it.
type FirewallEntry struct {
	Name            string `json:"name"`
	Enabled         bool   `json:"enabled"`
	Protocol        string `json:"protocol"`
	LocalPorts      string `json:"localPorts"`
	RemoteAddresses string `json:"remoteAddresses"`
}
