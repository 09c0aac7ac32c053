package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/operator/windowsimage"
)

// Limits of image lookups.
const (
	maxImages    = 1000
	imagesAtOnce = 4
)

// readImages queries the registries for all images of pods, each image once.
func readImages(ctx context.Context, s *session.Session, pods []lintPod, insecure bool, allowed []string) (map[string]podrules.ImageBuilds, error) {
	var all []string
	for _, p := range pods {
		for _, f := range podrules.Images(p.spec) {
			if !slices.Contains(all, f.Image) {
				all = append(all, f.Image)
			}
		}
	}
	if len(all) > maxImages {
		return nil, session.Failf(session.CodeUsage, "the manifests name %d images; at most %d are supported", len(all), maxImages)
	}
	reader, err := imageReader(all, insecure, allowed)
	if err != nil {
		return nil, session.Failf(session.CodeUsage, "%w", err)
	}
	defer reader.Close()
	if len(all) > 0 {
		fmt.Fprintf(s.ErrOut, "Querying registries for %s\n", count(len(all), "image"))
	}
	found := map[string]podrules.ImageBuilds{}
	var lock sync.Mutex
	atOnce(all, func(image string) {
		current, err := reader.Read(ctx, image)
		if errors.Is(err, windowsimage.ErrNoRegistry) {
			err = fmt.Errorf("%w; use --registry to query it anyway", err)
		}
		lock.Lock()
		defer lock.Unlock()
		found[image] = podrules.ImageBuilds{Image: current, Err: err}
	})
	return found, ctx.Err()
}

// atOnce calls read for each image, for at most imagesAtOnce at the same time, and returns when all calls have.
func atOnce[Image any](images []Image, read func(Image)) {
	var work sync.WaitGroup
	slots := make(chan struct{}, imagesAtOnce)
	for _, image := range images {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			read(image)
		})
	}
	work.Wait()
}
