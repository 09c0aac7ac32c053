package images

import (
	"context"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
)

const (
	// queryTimeout limits a query of the runtime, pullTimeout a pull. The smallest Windows image has some hundred megabytes.
	queryTimeout = 30 * time.Second
	pullTimeout  = 30 * time.Minute
)

// puller pulls images.
type puller struct{ state.Session }

func (p puller) status(ctx context.Context, name string) (cri.Image, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return p.Host.Runtime.ImageStatus(ctx, name)
}

// pull pulls an image with the credentials of the pull secret, then verifies that it is present.
func (p puller) pull(ctx context.Context, name string) (cri.Image, error) {
	began := time.Now()
	pulling, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	if err := p.Host.Runtime.Pull(pulling, name, loginOf(p.Wanted.PullSecret(), name)); err != nil {
		if pulling.Err() != nil && ctx.Err() == nil {
			return cri.Image{}, &cri.Error{Code: codeDeadline, Message: "the pull took longer than " + pullTimeout.String()}
		}
		return cri.Image{}, err
	}
	image, found, err := p.status(ctx, name)
	if err == nil && !found {
		return cri.Image{}, &cri.Error{Code: cri.NotFound, Message: "it was pulled, but containerd does not list it"}
	}
	if err == nil {
		p.RecordChange("image %s pulled in %v", name, time.Since(began).Round(time.Second))
	}
	return image, err
}
