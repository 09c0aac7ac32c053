package win

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/node/cri"
)

// images is the image service of the container runtime on a pipe.
type images struct{ pipe string }

// Look implements hostapi.Images.
func (i images) Look(ctx context.Context, name string) (image cri.Image, found bool, err error) {
	runtime, end := dialRuntime(i.pipe)
	defer end()
	return runtime.ImageStatus(ctx, name)
}

// NetworkReady implements hostapi.Runtime.
func (i images) NetworkReady(ctx context.Context) (bool, error) {
	runtime, end := dialRuntime(i.pipe)
	defer end()
	return runtime.NetworkReady(ctx)
}

// Pull implements hostapi.Images.
func (i images) Pull(ctx context.Context, name string, l cri.Login) error {
	runtime, end := dialRuntime(i.pipe)
	defer end()
	_, err := runtime.PullImage(ctx, name, l)
	return err
}
