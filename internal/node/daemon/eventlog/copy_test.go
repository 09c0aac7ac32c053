package eventlog_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/eventlog"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// every is how often events are copied, maxRead how many at a time, and maxAside how many rotated files of a channel stay.
const (
	every    = 15 * time.Second
	maxRead  = 2000
	maxAside = 2
)

// world is a host with a copier.
type world struct {
	windows *sim.Windows
	log     strings.Builder
	stop    func()
}

// inWorld runs a test in simulated time.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{windows: sim.NewWindows(sim.WindowsOptions{Root: root}), stop: func() {}}
		defer w.windows.PowerOff()
		if _, err := w.windows.Disk().MakeFolder(desired.Logs); err != nil {
			t.Fatal(err)
		}
		w.start(t)
		test(t, w)
		w.stop()
	})
}

// start begins a new session.
func (w *world) start(t *testing.T) {
	t.Helper()
	w.stop()
	ctx, cancel := context.WithCancel(t.Context())
	s := state.Session{Host: w.windows.Host(), Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	s.Wanted.Logs.Age = metav1.Duration{Duration: time.Hour}
	done := make(chan struct{})
	go func() { defer close(done); (&eventlog.Copier{Session: s}).Run(ctx) }()
	w.stop = func() { cancel(); <-done }
}

func (w *world) write(id uint32, message string) {
	w.windows.WriteEvent("System", hostapi.Event{Provider: "Service Control Manager", ID: id, Level: hostapi.EventError, Message: message})
}

// copied returns the messages in the copy of the System log.
func (w *world) copied(t *testing.T) []string {
	t.Helper()
	b, err := w.windows.Disk().Read(eventlog.Folder + `\System.log`)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var messages []string
	for line := range strings.Lines(string(b)) {
		_, message, _ := strings.Cut(strings.TrimSpace(line), ": ")
		messages = append(messages, message)
	}
	return messages
}

func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	time.Sleep(every + time.Second)
	synctest.Wait()
	if got := w.copied(t); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the copy has %q, want %q; the log:\n%s", got, want, w.log.String())
	}
}

func TestEventsAreCopiedOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write(7031, "one")
		w.expect(t, "one")
		w.write(7036, "two\r\n2026-01-01T00:00:00.000Z Error System[9] x 1: three")
		w.expect(t, "one", "two 2026-01-01T00:00:00.000Z Error System[9] x 1: three")
		w.start(t)
		w.write(7036, "four")
		w.expect(t, "one", "two 2026-01-01T00:00:00.000Z Error System[9] x 1: three", "four")
	})
}

func TestClearedLogIsCopiedFromStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write(1, "one")
		w.write(1, "two")
		w.expect(t, "one", "two")
		w.windows.ClearEvents("System")
		w.write(104, "cleared")
		w.expect(t, "one", "two", "cleared")
	})
}

func TestTooManyEventsAreCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write(1, "the first")
		w.expect(t, "the first")
		for i := range maxRead + 5 {
			w.write(1, fmt.Sprint(i))
		}
		time.Sleep(every + time.Second)
		got := w.copied(t)
		if len(got) != maxRead+2 || got[1] != "5 events before this one were not copied" || got[2] != "5" {
			t.Errorf("the copy has %d lines: %q...", len(got), got[:min(len(got), 4)])
		}
	})
}

func TestCopiesAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 30 {
			for range maxRead {
				w.write(1, strings.Repeat("x", 1000))
			}
			time.Sleep(every + time.Second)
		}
		names, err := w.windows.Disk().List(eventlog.Folder)
		if err != nil || len(names) > 1+maxAside {
			t.Errorf("the folder has %q, %v", names, err)
		}
	})
}

func TestCopyContinuesAfterPowerFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write(1, "one")
		w.expect(t, "one")
		w.stop()
		file := eventlog.Folder + `\System.log`
		b, _ := w.windows.Disk().Read(file)
		if err := os.WriteFile(w.windows.Disk().Local(file), append(b, "2026-11-23T16:45:20.123Z Error System[9"...), 0o600); err != nil {
			t.Fatal(err)
		}
		w.write(1, "two")
		w.start(t)
		w.expect(t, "one", "", "two")
	})
}

func TestCopyingResumesAfterDiskFull(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.windows.FillDisk(0)
		w.write(1, "one")
		w.expect(t)
		w.windows.FillDisk(-1)
		w.expect(t, "one")
		if got := strings.Count(w.log.String(), "Copying an event log failed"); got != 1 {
			t.Errorf("the failure was logged %d times:\n%s", got, w.log.String())
		}
	})
}

func TestCopyingEndsWhereEventLogsAreUnsupported(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		windows := sim.NewWindows(sim.WindowsOptions{Root: root})
		defer windows.PowerOff()
		windows.LoseEventLogs()
		var log strings.Builder
		(&eventlog.Copier{Session: state.Session{Host: windows.Host(), Log: slog.New(slog.NewTextHandler(&log, nil))}}).Run(t.Context())
		if windows.Disk().Exists(eventlog.Folder) || !strings.Contains(log.String(), "not supported by this version of Windows") {
			t.Errorf("the log is %q", log.String())
		}
	})
}
