// Package daemontest contains what the tests of WICD's packages share: payloads, hosts that have received or joined, clusters whose members they
// are, and what a joined host must look like. Everything goes through the commands and the service, as with the operator. No program uses it.
package daemontest

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	// Never is longer than any test: the simulated service manager restarts nothing on its own.
	Never = 24 * 365 * time.Hour
	// RestoredWithin is how soon a manual change to a service must be reverted.
	RestoredWithin = 5 * time.Second
	// AfterServiceCheck is longer than the interval between periodic checks of the services.
	AfterServiceCheck = 6 * time.Minute
	// TimingMeasured is the reason for a Windows without quirks in tests that measure how soon services are restored.
	TimingMeasured = "how soon services are restored is measured"

	// waitTimeout limits every wait.
	waitTimeout = time.Minute
)

// NewWindows returns a computer with the given quirks, or those drawn from the test's name.
func NewWindows(t *testing.T, o sim.WindowsOptions) *sim.Windows {
	t.Helper()
	// Many small files are synced to disk, which takes no time in memory.
	root, err := os.MkdirTemp("/dev/shm", "wicd-test-")
	if err != nil {
		root = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	o.Root, o.Seed = root, cmp.Or(o.Seed, sim.SeedOf(t.Name()))
	w := sim.NewWindows(o)
	t.Cleanup(func() {
		w.PowerOff()
		if t.Failed() {
			t.Log(w.DescribeQuirks())
		}
	})
	return w
}

// NewHost returns a computer that has received the content of a version, and the request to join with it.
func NewHost(t *testing.T, o sim.WindowsOptions) (*sim.Windows, wicdapi.JoinRequest) {
	t.Helper()
	w, c := NewWindows(t, o), NewPayload("1")
	MustSend(t, w, c)
	return w, NewRequest(c)
}

// NewNode returns a computer that has joined, and its request with the given changes. The request leads to no API server.
func NewNode(t *testing.T, o sim.WindowsOptions, changes ...func(*wicdapi.JoinRequest)) (*sim.Windows, wicdapi.JoinRequest) {
	t.Helper()
	w, r := NewHost(t, o)
	for _, change := range changes {
		change(&r)
	}
	MustJoin(t, w, r)
	return w, r
}

// StartRun runs the service until the test ends or stop is called. It discards the log.
func StartRun(t *testing.T, h hostapi.Host) (stop func()) {
	t.Helper()
	return start(t, func(ctx context.Context) {
		daemon.Run(ctx, h, daemon.RunOptions{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	})
}

func start(t *testing.T, run func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// Await polls until holds returns true, because the awaited change happens in the cluster or on the host.
func Await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTimeout); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v until %s", waitTimeout, what)
		}
	}
}
