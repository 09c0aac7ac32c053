package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// EventLogsFixture is one computer for one test.
type EventLogsFixture struct {
	EventLogs hostapi.EventLogs
	Inventory hostapi.Inventory
	// Channel is the channel to which Write writes, as this Provider and with level Warning.
	Channel, Provider string
	Write             func(t *testing.T, id uint32, message string)
	// Clear clears the channel; nil if a test must not, and NoClear is the reason.
	Clear   func(t *testing.T)
	NoClear string
	// NoEvents is why events cannot be read; empty if they can.
	NoEvents string
}

// EventLogs checks the contracts of hostapi.EventLogs and hostapi.Inventory.
func EventLogs(t *testing.T, fixture func(t *testing.T) EventLogsFixture) {
	withEvents := func(t *testing.T) EventLogsFixture {
		f := fixture(t)
		if f.NoEvents != "" {
			t.Skip(f.NoEvents)
		}
		return f
	}
	run(t, withEvents, []test[EventLogsFixture]{
		{"NewerEventsAreRead", newerEventsAreRead},
		{"NewestEventsAreReadFirst", newestEventsAreReadFirst},
		{"ClearedLogIsReadFromStart", clearedLogIsReadFromStart},
		{"AbsentChannelIsReported", absentChannelIsReported},
	})
	run(t, fixture, []test[EventLogsFixture]{
		{"UnreadableEventsAreUnsupported", unreadableEventsAreUnsupported},
		{"RoutesAreListed", routesAreListed},
		{"ReadEndsWithItsContext", readEndsWithItsContext},
	})
}

// mustReadEvents reads until there are as many events of the fixture's provider as wanted: Windows writes some moments later.
func mustReadEvents(t *testing.T, f EventLogsFixture, after uint64, limit, want int) []hostapi.Event {
	t.Helper()
	for until := time.Now().Add(waitTimeout); ; time.Sleep(50 * time.Millisecond) {
		events, err := f.EventLogs.Read(deadline(t), f.Channel, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		ours := slices.DeleteFunc(slices.Clone(events), func(e hostapi.Event) bool { return e.Provider != f.Provider })
		if len(ours) >= want || time.Now().After(until) {
			return ours
		}
	}
}

func lastRecord(t *testing.T, f EventLogsFixture) uint64 {
	t.Helper()
	events, err := f.EventLogs.Read(deadline(t), f.Channel, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Record
}

func newerEventsAreRead(t *testing.T, f EventLogsFixture) {
	before, began := lastRecord(t, f), time.Now()
	f.Write(t, 7031, "the first")
	f.Write(t, 7036, "the second")
	events := mustReadEvents(t, f, before, 100, 2)
	if len(events) != 2 {
		t.Fatalf("%d events, want 2: %+v", len(events), events)
	}
	for i, want := range []struct {
		id      uint32
		message string
	}{{7031, "the first"}, {7036, "the second"}} {
		e := events[i]
		if e.ID != want.id || !strings.Contains(e.Message, want.message) || e.Level != hostapi.EventWarning || e.Record <= before {
			t.Errorf("event %d is %+v", i, e)
		}
		if age := e.Time.Sub(began); age < -time.Minute || age > time.Minute {
			t.Errorf("event %d is of %s, and was written at %s", i, e.Time, began)
		}
	}
	if events := mustReadEvents(t, f, events[0].Record, 100, 1); len(events) != 1 || events[0].ID != 7036 {
		t.Errorf("after the first event: unexpected %+v", events)
	}
	if events := mustReadEvents(t, f, events[1].Record, 100, 0); len(events) != 0 {
		t.Errorf("after the last event: unexpected %+v", events)
	}
}

func newestEventsAreReadFirst(t *testing.T, f EventLogsFixture) {
	before := lastRecord(t, f)
	for i := range 50 {
		f.Write(t, 1, fmt.Sprintf("number %d.", i))
	}
	mustReadEvents(t, f, before, 1000, 50)
	events, err := f.EventLogs.Read(deadline(t), f.Channel, before, 20)
	if err != nil || len(events) != 20 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	if !slices.IsSortedFunc(events, func(a, b hostapi.Event) int { return int(a.Record) - int(b.Record) }) {
		t.Errorf("the events are not in order: %+v", events)
	}
	if last := events[len(events)-1]; !strings.Contains(last.Message, "number 49.") {
		t.Errorf("the last event is %+v", last)
	}
}

func clearedLogIsReadFromStart(t *testing.T, f EventLogsFixture) {
	if f.Clear == nil {
		t.Skip(f.NoClear)
	}
	for range 3 {
		f.Write(t, 1, "before")
	}
	last := lastRecord(t, f)
	f.Clear(t)
	f.Write(t, 2, "after")
	if events := mustReadEvents(t, f, last, 100, 1); len(events) != 1 || events[0].ID != 2 {
		t.Errorf("after the log was cleared: %+v", events)
	}
}

func absentChannelIsReported(t *testing.T, f EventLogsFixture) {
	events, err := f.EventLogs.Read(deadline(t), "WICD-contract-no-such-channel/Operational", 0, 1)
	if !errors.Is(err, hostapi.ErrNotFound) {
		t.Errorf("Read() = %v, %v; want ErrNotFound", events, err)
	}
}

func unreadableEventsAreUnsupported(t *testing.T, f EventLogsFixture) {
	if f.NoEvents == "" {
		t.Skip("events can be read")
	}
	events, err := f.EventLogs.Read(deadline(t), "System", 0, 10)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Read() = %v, %v; want errors.ErrUnsupported", events, err)
	}
}

func routesAreListed(t *testing.T, f EventLogsFixture) {
	entries, err := f.Inventory.Routes(deadline(t))
	if err != nil || len(entries) == 0 {
		t.Fatalf("Routes() = %+v, %v", entries, err)
	}
	for _, e := range entries {
		if !e.To.IsValid() || !e.Gateway.IsValid() {
			t.Errorf("a route is %+v", e)
		}
	}
}

func readEndsWithItsContext(t *testing.T, f EventLogsFixture) {
	if events, err := f.EventLogs.Read(canceled(t), "System", 0, 10); err == nil {
		t.Errorf("Read() = %v, without an error", events)
	}
}
