package contract

import (
	"errors"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// ImagesFixture is a container runtime without images, and without a network.
type ImagesFixture struct {
	Runtime hostapi.Runtime
	// Good can be pulled. Absent is in no registry.
	Good, Absent string
	// Stop ends the runtime.
	Stop func()
}

// Images checks the contract of hostapi.Runtime.
func Images(t *testing.T, fixture func(t *testing.T) ImagesFixture) {
	t.Run("PulledImageExists", func(t *testing.T) {
		f := fixture(t)
		expectImage(t, f, f.Good, false)
		for range 2 {
			if err := f.Runtime.Pull(deadline(t), f.Good, cri.Login{}); err != nil {
				t.Fatal(err)
			}
			expectImage(t, f, f.Good, true)
		}
	})
	t.Run("RuntimeErrorHasItsOwnType", func(t *testing.T) {
		f := fixture(t)
		var refused *cri.Error
		if err := f.Runtime.Pull(deadline(t), f.Absent, cri.Login{}); !errors.As(err, &refused) || refused.Code != cri.NotFound || refused.Message == "" {
			t.Errorf("Pull() = %v", err)
		}
		expectImage(t, f, f.Absent, false)
	})
	t.Run("UnreachableRuntimeIsAnError", func(t *testing.T) {
		f := fixture(t)
		f.Stop()
		ctx := deadline(t)
		_, _, errStatus := f.Runtime.ImageStatus(ctx, f.Good)
		errPull := f.Runtime.Pull(ctx, f.Good, cri.Login{})
		_, errReady := f.Runtime.NetworkReady(ctx)
		for _, err := range []error{errStatus, errPull, errReady} {
			if err == nil || errors.As(err, new(*cri.Error)) {
				t.Errorf("without a runtime: %v", err)
			}
		}
	})
	t.Run("MissingNetworkIsReported", func(t *testing.T) {
		if isReady, err := fixture(t).Runtime.NetworkReady(deadline(t)); err != nil || isReady {
			t.Errorf("NetworkReady() = %v, %v", isReady, err)
		}
	})
	t.Run("PullEndsWithItsContext", func(t *testing.T) {
		f := fixture(t)
		if err := f.Runtime.Pull(canceled(t), f.Good, cri.Login{}); err == nil {
			t.Error("Pull() returned no error after the end of its context")
		}
	})
}

func expectImage(t *testing.T, f ImagesFixture, name string, want bool) {
	t.Helper()
	if image, found, err := f.Runtime.ImageStatus(deadline(t), name); err != nil || found != want || found && image.ID == "" {
		t.Errorf("ImageStatus(%s) = %+v, %v, %v, want found: %v", name, image, found, err, want)
	}
}
