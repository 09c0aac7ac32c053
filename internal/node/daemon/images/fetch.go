package images

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// startTimeout limits how long Fetch waits for a runtime that was just started.
const startTimeout = 2 * time.Minute

// ErrNoRuntime means that the runtime does not answer.
var ErrNoRuntime = errors.New("the container runtime does not answer")

// Fetch ensures once that the wanted sandbox image is on a host whose runtime was just started with it, and that it is pinned. An image that is present
// needs no registry. The error names the image, the registry and its answer; it is ErrNoRuntime if the runtime did not start.
func Fetch(ctx context.Context, s state.Session) error {
	name := s.Wanted.SandboxImage
	p := puller{s}
	image, found, err := p.await(ctx, name)
	if err != nil {
		return err
	}
	if found && image.Pinned {
		return nil
	}
	_, err = p.pull(ctx, name)
	if refused := (*cri.Error)(nil); errors.As(err, &refused) {
		return fmt.Errorf("pulling sandbox image %s failed: %s; containerd says: %s", name, causeOf(name, refused).what,
			truncate.Text(withoutSecrets(refused.Message), maxCause))
	}
	return err
}

// await returns the state of an image as soon as the runtime answers.
func (p puller) await(ctx context.Context, name string) (image cri.Image, found bool, err error) {
	for end := time.Now().Add(startTimeout); ; {
		image, found, err = p.status(ctx, name)
		if err == nil || ctx.Err() != nil {
			return image, found, err
		}
		if time.Now().After(end) {
			return image, found, fmt.Errorf("%w within %s: %w", ErrNoRuntime, startTimeout, err)
		}
		if err := backoff.Sleep(ctx, startPause); err != nil {
			return image, found, err
		}
	}
}
