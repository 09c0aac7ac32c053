package sim

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// images is the image service of the simulated containerd. Every registry has every image, unless RefuseImage was called.
type images struct{ boot *boot }

// ImageStatus implements hostapi.Runtime.
func (i images) ImageStatus(ctx context.Context, name string) (image cri.Image, found bool, err error) {
	w := i.boot.w
	if err := i.lock(ctx); err != nil {
		return cri.Image{}, false, err
	}
	defer w.mu.Unlock()
	pinned, found := w.images[name]
	return cri.Image{ID: "sha256:of " + name, Pinned: pinned}, found, nil
}

// NetworkReady implements hostapi.Runtime.
func (i images) NetworkReady(ctx context.Context) (bool, error) {
	w := i.boot.w
	if err := i.lock(ctx); err != nil {
		return false, err
	}
	defer w.mu.Unlock()
	names, err := w.Disk().List(w.cniFolder())
	if err != nil {
		return false, nil
	}
	hasConfig := slices.ContainsFunc(names, func(name string) bool {
		return strings.HasSuffix(name, ".conf") || strings.HasSuffix(name, ".conflist")
	})
	return hasConfig && !w.missed, nil
}

// cniFolder returns the folder from which containerd reads the pod network configuration, according to its own configuration.
func (w *Windows) cniFolder() string {
	content, _ := w.Disk().Read(`C:\k\containerd\containerd_conf.toml`)
	if found := regexp.MustCompile(`(?m)^ *conf_dir = '(.*)'$`).FindSubmatch(content); found != nil {
		return string(found[1])
	}
	return desired.CNIFolder
}

// MissNetwork makes the runtime miss its network configuration until something in the folder changes, as if it could not open the file when it was
// notified.
func (w *Windows) MissNetwork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = true
}

// Pull implements hostapi.Runtime.
func (i images) Pull(ctx context.Context, name string, _ cri.Login) error {
	w := i.boot.w
	w.mu.Lock()
	duration := w.pullTakes
	w.mu.Unlock()
	if duration > 0 {
		_ = backoff.Sleep(ctx, duration)
	}
	if err := i.lock(ctx); err != nil {
		return err
	}
	defer w.mu.Unlock()
	w.pulls = append(w.pulls, name)
	if err := w.refused[name]; err != nil {
		return err
	}
	w.images[name] = w.images[name] || strings.Contains(i.boot.running[desired.ContainerdService].config, "'"+name+"'")
	return nil
}

// lock is boot.lock, with an error when containerd does not run.
func (i images) lock(ctx context.Context) error {
	if err := i.boot.lock(ctx); err != nil {
		return err
	}
	if p := i.boot.running[desired.ContainerdService]; p == nil || p.stopping {
		i.boot.w.mu.Unlock()
		return fmt.Errorf("connecting to the runtime: %s does not run", desired.ContainerdService)
	}
	return nil
}

// RefuseImage makes pulls of an image fail with err; nil lets them succeed again.
func (w *Windows) RefuseImage(name string, err *cri.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.refused, name)
	if err != nil {
		w.refused[name] = err
	}
}

// SlowPulls sets the duration of each pull.
func (w *Windows) SlowPulls(duration time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pullTakes = duration
}

// RemoveImage removes an image, like another program.
func (w *Windows) RemoveImage(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.images, name)
}

// Images returns the existing images, and whether they are pinned.
func (w *Windows) Images() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.images)
}

// Pulls returns the images that were pulled or refused, in order.
func (w *Windows) Pulls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.pulls)
}
