package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/podrules"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
)

// Limits of reading images.
const (
	maxImages    = 1000
	imagesAtOnce = 4
)

// imageBuilds is what registries say of images, or why they say nothing.
type imageBuilds struct {
	builds map[string]windowsbuild.Image
	unread map[string]error
}

// readImages asks the registries for all images of pods, each image once.
func readImages(ctx context.Context, s *session.Session, pods []lintPod, insecure bool) (imageBuilds, error) {
	var all []string
	for _, p := range pods {
		_, images := podrules.Images(p.spec)
		for _, image := range images {
			if !slices.Contains(all, image) {
				all = append(all, image)
			}
		}
	}
	if len(all) > maxImages {
		return imageBuilds{}, session.Failf(session.CodeUsage, "the manifests name %d images; at most %d are read", len(all), maxImages)
	}
	reader, err := imageReader(all, insecure)
	if err != nil {
		return imageBuilds{}, session.Failf(session.CodeUsage, "%w", err)
	}
	defer reader.Close()
	if len(all) > 0 {
		fmt.Fprintf(s.ErrOut, "Asking registries for %d images\n", len(all))
	}
	found := imageBuilds{builds: map[string]windowsbuild.Image{}, unread: map[string]error{}}
	var lock sync.Mutex
	var work sync.WaitGroup
	slots := make(chan struct{}, imagesAtOnce)
	for _, image := range all {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			is, err := reader.Read(ctx, image)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				found.unread[image] = err
				return
			}
			found.builds[image] = is
		})
	}
	work.Wait()
	return found, ctx.Err()
}

// check finds images that do not run where a pod asks to be, and those that could not be read.
func (b imageBuilds) check(spec map[string]any) []podrules.Finding {
	found := podrules.CheckImages(spec, b.builds)
	fields, images := podrules.Images(spec)
	for _, field := range fields {
		if err := b.unread[images[field]]; err != nil {
			found = append(found, podrules.Finding{
				Severity: podrules.Warning, Field: field, Message: fmt.Sprintf("Image %s could not be read: %v.", images[field], err),
				Remedy: "Compare the name of the image, and log in to its registry with docker login or podman login.",
			})
		}
	}
	return found
}
