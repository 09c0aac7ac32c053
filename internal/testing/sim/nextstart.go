package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// nextStart has the changes that take effect at a restart.
type nextStart struct{ boot *boot }

// Waits implements hostapi.NextStart.
func (n nextStart) Waits(ctx context.Context) (hostapi.Waits, error) {
	if err := n.boot.lock(ctx); err != nil {
		return hostapi.Waits{}, err
	}
	defer n.boot.w.mu.Unlock()
	return n.boot.waitsLocked(), nil
}

// Unfinished implements hostapi.NextStart.
func (n nextStart) Unfinished(ctx context.Context) (hostapi.Unfinished, error) {
	if err := n.boot.lock(ctx); err != nil {
		return hostapi.Unfinished{}, err
	}
	defer n.boot.w.mu.Unlock()
	return n.boot.unfinishedLocked(), nil
}

// Boot implements hostapi.NextStart.
func (n nextStart) Boot(ctx context.Context) (string, error) {
	if n.boot.isOff() {
		return "", ErrPower
	}
	return n.boot.id, ctx.Err()
}

// Rename implements hostapi.NextStart.
func (n nextStart) Rename(_ context.Context, hostname string) error {
	if err := hostapi.CheckHostname(hostname); err != nil {
		return err
	}
	w := n.boot.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.boot.off {
		return ErrPower
	}
	if w.nextName == hostname {
		return nil
	}
	if err := n.boot.changeLocked("rename"); err != nil {
		return err
	}
	w.nextName = hostname
	return nil
}

// waitsLocked returns why Windows needs a restart.
func (b *boot) waitsLocked() hostapi.Waits {
	b.completeLocked()
	w := b.w
	waits := hostapi.Waits{Causes: slices.Clone(w.waits), Replacements: hostapi.Replacements(w.renames)}
	for _, name := range slices.Sorted(maps.Keys(w.features)) {
		if _, completes := w.servicing.completing[name]; w.features[name] == wicdapi.FeaturePending && !completes {
			waits.Causes, waits.Servicing = append(waits.Causes, "feature "+name), true
		}
	}
	isInstalled := w.local.isRestartPending()
	if isInstalled || time.Since(b.began) < w.options.Quirks.Servicing.ServicingFor {
		waits.Causes, waits.Servicing = append(waits.Causes, "features or updates are half installed (Component Based Servicing)"), true
	}
	if isInstalled {
		waits.Causes = append(waits.Causes, "updates are installed (Windows Update)")
	}
	if w.nextName != "" {
		waits.Causes = append(waits.Causes, fmt.Sprintf("the computer name changes from %s to %s", w.options.Hostname, w.nextName))
	}
	return waits
}

// RenameAtStart adds strings to PendingFileRenameOperations, like a program that replaces a file in use.
func (w *Windows) RenameAtStart(values ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renames = append(w.renames, values...)
}

// WaitFor makes Windows need a restart, as an update does, with a reason for each.
func (w *Windows) WaitFor(reasons ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits = reasons
}
