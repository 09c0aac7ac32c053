package eventlog

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/host"
)

func TestALineHasWhatPeopleLookFor(t *testing.T) {
	at := time.Date(2026, 11, 23, 16, 45, 20, 123456700, time.UTC)
	got := linesOf("System", 7, []host.Event{{Record: 8, Time: at, Provider: "Tcpip", ID: 4199, Level: host.EventError, Message: "address conflict"}})
	if want := "2026-11-23T16:45:20.123Z Error System[8] Tcpip 4199: address conflict\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
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
