package win

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/node/cri"
)

// containerRuntime is the container runtime on a pipe.
type containerRuntime struct{ pipe string }

// ImageStatus implements hostapi.Runtime.
func (r containerRuntime) ImageStatus(ctx context.Context, name string) (image cri.Image, found bool, err error) {
	runtime, end := dialRuntime(r.pipe)
	defer end()
	return runtime.ImageStatus(ctx, name)
}

// NetworkReady implements hostapi.Runtime.
func (r containerRuntime) NetworkReady(ctx context.Context) (bool, error) {
	runtime, end := dialRuntime(r.pipe)
	defer end()
	return runtime.NetworkReady(ctx)
}

// Pull implements hostapi.Runtime.
func (r containerRuntime) Pull(ctx context.Context, name string, l cri.Login) error {
	runtime, end := dialRuntime(r.pipe)
	defer end()
	_, err := runtime.PullImage(ctx, name, l)
	return err
}
