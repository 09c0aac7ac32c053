package sim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// eventLog is one log of events.
type eventLog struct {
	events []hostapi.Event
	last   uint64
}

// newEventLogs returns the logs that every Windows has.
func newEventLogs() map[string]*eventLog {
	return map[string]*eventLog{"System": {}, "Application": {}}
}

// eventLogs are the logs of events of one boot.
type eventLogs struct{ boot *boot }

// Read implements hostapi.EventLogs.
func (l eventLogs) Read(ctx context.Context, channel string, after uint64, limit int) ([]hostapi.Event, error) {
	w := l.boot.w
	if err := l.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	switch {
	case w.events == nil:
		return nil, fmt.Errorf("reading events: %w", errors.ErrUnsupported)
	case w.events[channel] == nil:
		return nil, fmt.Errorf("channel %s: %w", channel, hostapi.ErrNotFound)
	}
	got := w.events[channel]
	if got.last < after {
		after = 0
	}
	newer := slices.DeleteFunc(slices.Clone(got.events), func(e hostapi.Event) bool { return e.Record <= after })
	return newer[max(0, len(newer)-limit):], nil
}

// WriteEvent writes an event, and creates the channel if it does not exist. It sets Record, and Time if that is zero.
func (w *Windows) WriteEvent(channel string, e hostapi.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == nil {
		return
	}
	got := w.events[channel]
	if got == nil {
		got = &eventLog{}
		w.events[channel] = got
	}
	got.last++
	e.Record = got.last
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	got.events = append(got.events, e)
}

// ClearEvents clears a log, like an administrator: record numbers start again.
func (w *Windows) ClearEvents(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events != nil {
		w.events[channel] = &eventLog{}
	}
}

// LoseEventLogs makes events unreadable, as they are on Wine.
func (w *Windows) LoseEventLogs() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = nil
}

// inventory implements hostapi.Inventory.
type inventory struct{ boot *boot }

// Routes implements hostapi.Inventory.
func (i inventory) Routes(ctx context.Context) (entries []hostapi.RouteEntry, err error) {
	w := i.boot.w
	if err := i.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	for _, f := range w.options.Interfaces {
		if f.DefaultRoute {
			entries = append(entries, hostapi.RouteEntry{
				To: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Gateway: netip.MustParseAddr("192.0.2.1"), Interface: f.Index, Metric: f.Metric,
			})
		}
	}
	for _, r := range i.boot.routes {
		entries = append(entries, hostapi.RouteEntry{To: r.To, Gateway: netip.IPv4Unspecified()})
	}
	return entries, nil
}

// FirewallRules implements hostapi.Inventory.
func (i inventory) FirewallRules(ctx context.Context) (entries []hostapi.FirewallEntry, err error) {
	w := i.boot.w
	if err := i.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	if w.firewallStopped {
		return nil, fmt.Errorf("%w: its service is stopped", hostapi.ErrNoFirewall)
	}
	for _, r := range w.rules {
		if r.Group != hostapi.FirewallGroup {
			continue
		}
		var ports []string
		for _, port := range r.Ports {
			ports = append(ports, strconv.Itoa(int(port)))
		}
		entries = append(entries, hostapi.FirewallEntry{
			Name: r.Name, Enabled: !r.Disabled, Protocol: r.Protocol, LocalPorts: strings.Join(ports, ","), RemoteAddresses: strings.Join(r.From, ","),
		})
	}
	return entries, nil
}

// Version implements hostapi.Inventory.
func (i inventory) Version(ctx context.Context) (build, revision int, err error) {
	if err := i.boot.lock(ctx); err != nil {
		return 0, 0, err
	}
	defer i.boot.w.mu.Unlock()
	return i.boot.w.options.Build, i.boot.w.options.UBR, nil
}
