package daemon_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// startRun runs the service until the test ends or stop is called. It discards the log.
func startRun(t *testing.T, w *sim.Windows) (stop func()) {
	t.Helper()
	return runOn(t, w.Host())
}

func runOn(t *testing.T, h hostapi.Host) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		daemon.Run(ctx, h, daemon.RunOptions{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// soon is the reason for a Windows without quirks in tests of how soon services are restored.
const soon = "how soon services are restored is measured"

// withoutCluster joins a host. Its request leads to no API server.
func withoutCluster(t *testing.T, o sim.WindowsOptions) (*sim.Windows, wicdapi.JoinRequest) {
	t.Helper()
	o.Kind = soon
	w, c := newWindows(t, o), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustJoin(t, w, r)
	return w, r
}

// servicesLook is more than the interval between periodic checks of the services.
const servicesLook = 6 * time.Minute

func TestAServiceIsStartedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: 24 * time.Hour})
		startRun(t, w)
		time.Sleep(time.Hour)
		w.Crash("kubelet")
		time.Sleep(10 * time.Millisecond)
		expectJoined(t, w, r)
	})
}

func TestAServiceThatAlwaysDiesIsStartedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int64
		dies := func(context.Context, sim.Process) uint32 {
			starts.Add(1)
			return 1
		}
		w, _ := withoutCluster(t, sim.WindowsOptions{RestartDelay: 24 * time.Hour, Programs: map[string]sim.Program{"kubelet": dies}})
		startRun(t, w)
		time.Sleep(10 * time.Minute)
		if n := starts.Load(); n < 10 || n > 60 {
			t.Errorf("it was started %d times in ten minutes", n)
		}
	})
}

func TestAJoinAndTheServiceDoNotDisturbEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: 24 * time.Hour})
		startRun(t, w)
		for n := range 20 {
			r.Desired.Files[0].Content += " "
			r.Desired.Version = string(rune('a' + n))
			mustJoin(t, w, r)
			expectJoined(t, w, r)
			time.Sleep(time.Duration(n) * time.Second)
		}
		time.Sleep(servicesLook)
		expectJoined(t, w, r)
	})
}

func TestServiceStopsOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh := newWindows(t, sim.WindowsOptions{})
		stop := startRun(t, fresh)
		time.Sleep(time.Minute)
		stop() // blocks if the service does not end

		joined, _ := withoutCluster(t, sim.WindowsOptions{})
		stop = startRun(t, joined)
		time.Sleep(time.Minute)
		stop()
	})
}

func TestAServiceThatBeganBeforeTheJoinTakesItUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, sim.WindowsOptions{RestartDelay: 24 * time.Hour}), newCargo("1")
		startRun(t, w)
		mustSend(t, w, c)
		mustJoin(t, w, newRequest(c))
		time.Sleep(20 * time.Second)
		w.Crash("containerd")
		time.Sleep(servicesLook)
		expectJoined(t, w, newRequest(c))
	})
}

func TestTheJournalStaysSmall(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustWrite(t, w.Disk(), desired.State+`\journal.jsonl`, string(slices.Repeat([]byte("{\"step\":\"filler\"}\n"), 100_000)))
	mustJoin(t, w, r)
	for name, limit := range map[string]int64{`\journal.jsonl`: 1 << 20, `\journal.1.jsonl`: 3 << 20} {
		if info, err := w.Disk().Stat(desired.State + name); err != nil || info.Size() > limit {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	var status wicdapi.Status
	if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandStatus, nil, &status, nil); err != nil || len(status.Journal) != 20 {
		t.Errorf("the status shows %d lines, %v", len(status.Journal), err)
	}
}
