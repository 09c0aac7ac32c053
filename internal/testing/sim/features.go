package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// servicing is the state of features and restarts.
type servicing struct {
	// completing are the states that features get when Windows has completed its servicing in this boot.
	completing map[string]wicdapi.FeatureState
	// rollbacks and ownRestarts are how many are left.
	rollbacks, ownRestarts int
	// restarts counts those that programs requested, disturbed those of them during setup or servicing.
	restarts, disturbed int
}

// ownRestart is how long after its start Windows restarts on its own.
const ownRestart = 30 * time.Second

// RestartsRequested returns how many restarts programs requested, and how many of those came during setup or servicing.
func (w *Windows) RestartsRequested() (all, disturbed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.servicing.restarts, w.servicing.disturbed
}

// SetServicing changes the quirks of servicing from now on.
func (w *Windows) SetServicing(q ServicingQuirks) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.options.Quirks.Servicing = q
}

// Feature implements hostapi.System.
func (b *boot) Feature(ctx context.Context, name string) (wicdapi.FeatureState, error) {
	if err := b.dism(ctx); err != nil {
		return wicdapi.FeatureUnknown, fmt.Errorf("reading the state of Windows feature %s: %w", name, err)
	}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.completeLocked()
	if state, known := b.w.features[name]; known {
		return state, nil
	}
	return wicdapi.FeatureUnknown, nil
}

// EnableFeature implements hostapi.System.
func (b *boot) EnableFeature(ctx context.Context, name string) (reboot bool, err error) {
	if err := b.dism(ctx); err != nil {
		return false, fmt.Errorf("enabling feature %s: %w", name, err)
	}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if err := b.changeLocked("feature " + name); err != nil {
		return false, err
	}
	b.completeLocked()
	q := b.w.options.Quirks.Servicing
	switch b.w.features[name] {
	case wicdapi.FeatureEnabled:
		return false, nil
	case wicdapi.FeatureDisabled, wicdapi.FeaturePending:
		if q.Refuses != 0 && (q.RefusesIn < 0 || b.w.boots <= q.RefusesIn) {
			return false, fmt.Errorf("enabling feature %s: %w", name, &hostapi.FeatureError{Call: "DismEnableFeature", Code: q.Refuses})
		}
		b.w.features[name] = wicdapi.FeaturePending
		return true, nil
	default:
		return false, fmt.Errorf("feature %s: %w", name, hostapi.ErrNotFound)
	}
}

// dism simulates the duration of a DISM call, and whether DISM answers at all.
func (b *boot) dism(ctx context.Context) error {
	b.w.mu.Lock()
	q := b.w.options.Quirks.Servicing
	b.w.mu.Unlock()
	wait := max(q.BusyFor-time.Since(b.began), q.Takes)
	var answered <-chan time.Time
	if wait > 0 && !q.Hangs {
		answered = time.After(wait)
	}
	if wait > 0 || q.Hangs {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.ctx.Done():
			return ErrPower
		case <-answered:
		}
	}
	switch {
	case b.isOff():
		return ErrPower
	case q.BrokenStore:
		return &hostapi.FeatureError{Call: "DismOpenSession", Code: storeCorrupt}
	}
	return ctx.Err()
}

// completeLocked completes what Windows finishes some time after its start. The caller holds the lock.
func (b *boot) completeLocked() {
	if time.Since(b.began) < b.w.options.Quirks.Servicing.PendingFor {
		return
	}
	for name, state := range b.w.servicing.completing {
		b.w.features[name] = state
	}
	b.w.servicing.completing = nil
}

// startFeaturesLocked starts to complete pending features in a new boot. The caller holds the lock.
func (w *Windows) startFeaturesLocked() {
	q, s := w.options.Quirks.Servicing, &w.servicing
	s.completing = map[string]wicdapi.FeatureState{}
	for name, state := range w.features {
		if state == wicdapi.FeaturePending {
			s.completing[name] = wicdapi.FeatureEnabled
		}
	}
	switch {
	case len(s.completing) == 0:
		return
	case s.ownRestarts > 0:
		s.ownRestarts--
		s.completing = map[string]wicdapi.FeatureState{}
		b := w.boot
		time.AfterFunc(ownRestart, func() {
			if !b.isOff() {
				w.Restart()
			}
		})
		return
	case s.rollbacks != 0:
		s.rollbacks--
		for name := range s.completing {
			s.completing[name] = wicdapi.FeatureDisabled
		}
	}
	if q.PendingFor == 0 {
		w.boot.completeLocked()
	}
}

// unfinishedLocked returns what Windows has not finished. The caller holds the lock.
func (b *boot) unfinishedLocked() hostapi.Unfinished {
	b.completeLocked()
	w := b.w
	u := hostapi.Unfinished{Up: time.Since(b.began)}
	if time.Since(w.created) < w.options.Quirks.Setup.For {
		u.Setup = []string{"OOBEInProgress"}
	}
	if len(w.servicing.completing) > 0 || b.installing || u.Up < w.options.Quirks.Servicing.ServicingFor {
		u.Servicing = []string{"TrustedInstaller is running"}
	}
	return u
}

// VirtualMachinePlatform is the feature of Windows Subsystem for Linux, which is installed with it.
const VirtualMachinePlatform = "VirtualMachinePlatform"

// servicesOfFeatures returns the services that features install. The caller holds the lock.
func (b *boot) servicesOfFeatures() (names []string) {
	b.completeLocked()
	isOn := func(name string) bool { return b.w.features[name] == wicdapi.FeatureEnabled }
	if isOn(desired.ContainersFeature) || isOn(desired.HyperVFeature) || isOn(VirtualMachinePlatform) {
		names = append(names, "hns", "vmcompute")
	}
	if isOn(desired.HyperVFeature) {
		names = append(names, "vmms")
	}
	if isOn(VirtualMachinePlatform) {
		names = append(names, "WSLService")
	}
	return names
}
