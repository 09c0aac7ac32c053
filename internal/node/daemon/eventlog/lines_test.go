package eventlog

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

func TestLineHasSearchableFields(t *testing.T) {
	at := time.Date(2026, 11, 23, 16, 45, 20, 123456700, time.UTC)
	got := linesOf("System", 7, []hostapi.Event{{Record: 8, Time: at, Provider: "Tcpip", ID: 4199, Level: hostapi.EventError, Message: "address conflict"}})
	if want := "2026-11-23T16:45:20.123Z Error System[8] Tcpip 4199: address conflict\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMissingRecordsAreCounted(t *testing.T) {
	var events []hostapi.Event
	for _, record := range []uint64{3, 4, 7, 9} {
		events = append(events, hostapi.Event{Record: record, Provider: "x", Level: hostapi.EventError, Message: "m"})
	}
	const at = "0001-01-01T00:00:00.000Z "
	line := func(record string) string { return at + "Error System[" + record + "] x 0: m\n" }
	missing := func(record, n string) string {
		return at + "Warning System[" + record + "] wicd 0: " + n + " events before this one were not copied\n"
	}
	want := missing("2", "1") + line("3") + line("4") + missing("6", "2") + line("7") + missing("8", "1") + line("9")
	if got := linesOf("System", 1, events); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := linesOf("System", 0, events[:1]); got != line("3") {
		t.Errorf("the first copy begins with %q", got)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("2026-11-23T16:45:20.123Z Error System[8] Tcpip 4199: x\n")
	f.Add("2026-11-23T16:45:20.123Z Error System[")
	f.Fuzz(func(t *testing.T, line string) {
		if _, ok := recordOf(line); ok && !strings.HasSuffix(line, "\n") {
			t.Errorf("half a line is read: %q", line)
		}
	})
}
