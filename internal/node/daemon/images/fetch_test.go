package images_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/daemon/images"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// newFetching returns a host that can run only containerd, configured with firstImage, and the session of Fetch.
func newFetching(t *testing.T) (*sim.Windows, state.Session) {
	t.Helper()
	w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "one fault at a time"})
	for name, content := range map[string]string{containerdFile: "sandbox = '" + firstImage + "'", `C:\k\containerd.exe`: ""} {
		if _, err := w.Host().Disk.WriteFile(name, content); err != nil {
			t.Fatal(err)
		}
	}
	s := desired.Service{Name: desired.ContainerdService, Description: r.Desired.Services[0].Description, Command: `C:\k\containerd.exe --config ` + containerdFile}
	if _, err := w.Host().Services.Put(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return w, state.Session{Host: w.Host(), Wanted: desired.Node{SandboxImage: firstImage}, Log: slog.New(slog.DiscardHandler)}
}

// TestFetchAwaitsRuntime starts containerd while Fetch waits, and has Fetch find the image afterwards.
func TestFetchAwaitsRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newFetching(t)
		time.AfterFunc(time.Minute, func() { _ = s.Host.Services.Start(t.Context(), desired.ContainerdService) })
		for range 2 {
			if err := images.Fetch(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if !w.Images()[firstImage] || len(w.Pulls()) != 1 {
			t.Errorf("images are %v after pulls of %q, want one that is pinned, pulled once", w.Images(), w.Pulls())
		}
		w.PowerOff()
	})
}

func TestFetchReportsRuntimeThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newFetching(t)
		began := time.Now()
		if err := images.Fetch(t.Context(), s); !errors.Is(err, images.ErrNoRuntime) || time.Since(began) > 5*time.Minute {
			t.Errorf("Fetch() = %v after %s", err, time.Since(began))
		}
		w.PowerOff()
	})
}

// TestFetchPinsImage has an image that was pulled before containerd was configured with it.
func TestFetchPinsImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newFetching(t)
		if err := s.Host.Services.Start(t.Context(), desired.ContainerdService); err != nil {
			t.Fatal(err)
		}
		s.Wanted.SandboxImage = secondImage
		if err := s.Host.Runtime.Pull(t.Context(), secondImage, cri.Login{}); err != nil {
			t.Fatal(err)
		}
		if err := images.Fetch(t.Context(), s); err != nil || len(w.Pulls()) != 2 {
			t.Errorf("Fetch() = %v after pulls of %q, want a second pull of the image that is not pinned", err, w.Pulls())
		}
		w.PowerOff()
	})
}
