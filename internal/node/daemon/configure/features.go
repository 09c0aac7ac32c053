package configure

import (
	"context"
	"errors"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// featureEnabled is the journal entry for a newly enabled feature. A leave searches for it.
const featureEnabled = "feature %s enabled"

// enableFeatures enables missing features. It stops when Windows must restart first to complete earlier servicing: the rest follows after the
// restart.
func (w *windows) enableFeatures(ctx context.Context) error {
	for _, name := range w.features {
		err := w.enableFeature(ctx, name)
		if name == desired.HyperVFeature && err != nil && ctx.Err() == nil {
			w.recordSkip("feature %s could not be enabled: %v", name, err) // the host joins without it, and WICD reports that
			continue
		}
		if err != nil {
			return err
		}
		if len(w.rebooting) > 0 && w.rebooting[len(w.rebooting)-1].key == servicingCause {
			return nil
		}
	}
	return nil
}

func (w *windows) enableFeature(ctx context.Context, name string) error {
	current, err := stateOf(ctx, w.System, name)
	if err != nil {
		return w.withRemedy(err)
	}
	switch current {
	case wicdapi.FeatureEnabled:
		return nil
	case wicdapi.FeatureUnknown:
		w.recordSkip("Windows does not have feature %s, or does not report its state", name)
		return nil
	}
	if name == desired.HyperVFeature {
		if hyperV := hyperVStateOf(w.facts, current); !hyperV.canBeEnabled() {
			w.recordSkip("%s", hyperV.message)
			return nil
		}
	}
	if err := w.checkResolved(featureCause(name), fmt.Sprintf("feature %s of Windows is %s", name, current)); err != nil {
		return err
	}
	reboot, err := w.enable(ctx, name)
	if w.mayNeedRestart(ctx, err) {
		reason := fmt.Sprintf("Windows must complete a pending installation before it can enable feature %s (%v)", name, err)
		if previous := w.pastRestarts.Since(servicingCause, w.facts.BootID); previous != nil {
			return ineffectiveRestart(previous, w.withRemedy(err).Error())
		}
		w.rebooting = append(w.rebooting, cause{servicingCause, reason})
		return nil
	}
	if err != nil {
		return fmt.Errorf("enabling feature %s: %w", name, w.withRemedy(err))
	}
	if current != wicdapi.FeaturePending {
		w.recordChange(featureEnabled, name)
	}
	if reboot {
		w.rebooting = append(w.rebooting, cause{featureCause(name), "feature " + name + " takes effect after a restart"})
	}
	return nil
}

// checkResolved returns an error if a cause persists after a restart for it. Windows continues servicing after it starts, and may
// restart on its own meanwhile.
func (w *windows) checkResolved(key, problem string) error {
	restart := w.pastRestarts.Since(key, w.facts.BootID)
	if restart == nil {
		return nil
	}
	if w.unfinished.Up < servicingWithin {
		return unready(wicdapi.CodeServicing, w.unfinished.Up, joinContinues, "%s after the restart at %s, and Windows may still be completing it", problem, restart.At.Format("15:04:05Z"))
	}
	if errors := dismErrors(w.Disk); errors != "" {
		problem += "; " + errors
	}
	return ineffectiveRestart(restart, problem)
}

func (w *windows) enable(ctx context.Context, name string) (reboot bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, enableTimeout, fmt.Errorf("%w within %s", errDISMSilent, enableTimeout))
	defer cancel()
	reboot, err = w.System.EnableFeature(ctx, name)
	return reboot, withCause(ctx, err)
}

// errDISMSilent means that DISM did not answer in time.
var errDISMSilent = errors.New("DISM did not respond")

// stateOf queries Windows for the state of a feature.
func stateOf(ctx context.Context, s hostapi.System, name string) (wicdapi.FeatureState, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, featureTimeout, fmt.Errorf("%w within %s", errDISMSilent, featureTimeout))
	defer cancel()
	current, err := s.Feature(ctx, name)
	return current, withCause(ctx, err)
}

// withCause adds the cause of ctx to err if ctx is done.
func withCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return err
}

// mayNeedRestart reports whether a feature could not be enabled because Windows must restart first: the error says so, or servicing is
// incomplete.
func (w *windows) mayNeedRestart(ctx context.Context, err error) bool {
	failed, ok := errors.AsType[*hostapi.FeatureError](err)
	if !ok || failed.NeedsRestart() {
		return ok
	}
	waits, err := w.NextStart.Waits(ctx)
	return err == nil && waits.Servicing
}
