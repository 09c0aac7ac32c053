package configure

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// windows is what of Windows itself takes effect with a restart.
type windows struct {
	work
	facts agent.HostFacts
	// hostname is the name that Windows is given; empty keeps what it has.
	hostname  string
	features  []string
	mayReboot bool
	// rebooting is what takes effect with a restart, in words.
	rebooting []string
}

// rename gives Windows the name that was asked for. It is asked for once: who renames the host later is not worked against.
func (w *windows) rename(ctx context.Context) error {
	if w.hostname == "" || strings.EqualFold(w.hostname, w.facts.Hostname) {
		return nil
	}
	why := fmt.Sprintf("the host's name changes from %s to %s with a restart", w.facts.Hostname, w.hostname)
	if !w.mayReboot {
		return &agent.Error{Code: agent.CodeRebootNeeded, Message: why + ", which is not allowed; rename and restart the host, or allow it"}
	}
	if err := w.NextStart.Rename(ctx, w.hostname); err != nil {
		return fmt.Errorf("renaming the host: %w", err)
	}
	w.rebooting = append(w.rebooting, why)
	return nil
}

// featureEnabled is what the journal says of a feature that was not enabled before. A leave looks for it.
const featureEnabled = "feature %s enabled"

func (w *windows) enableFeatures(ctx context.Context) error {
	for _, name := range w.features {
		is := w.facts.Features[name]
		if is == agent.FeatureEnabled {
			continue
		}
		if is == agent.FeatureUnknown {
			w.recordNone("this Windows does not know feature %s", name)
			continue
		}
		optional := name == desired.HyperVFeature
		if optional && !w.mayEnableHyperV() {
			continue
		}
		reboot, err := w.System.EnableFeature(ctx, name)
		if err != nil && optional && ctx.Err() == nil {
			w.recordNone("feature %s could not be enabled: %v", name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("enabling feature %s: %w", name, err)
		}
		if is != agent.FeaturePending {
			w.recordChange(featureEnabled, name)
		}
		if reboot {
			w.rebooting = append(w.rebooting, "feature "+name+" takes effect after a restart")
		}
	}
	return nil
}

// mayEnableHyperV says whether a join enables Hyper-V. A host that cannot have it is a node without it, which its WICD tells; one that may
// not restart now gets it from its WICD later.
func (w *windows) mayEnableHyperV() bool {
	if is := judgeHyperV(w.facts); !is.mayBeEnabled() {
		w.recordNone("%s", is.message)
		return false
	}
	return w.mayReboot
}

// restart restarts Windows once for all that takes effect only then. The join is repeated after it.
func (w *windows) restart(ctx context.Context) error {
	if len(w.rebooting) == 0 {
		return nil
	}
	why := strings.Join(w.rebooting, "; ")
	if !w.mayReboot {
		return &agent.Error{Code: agent.CodeRebootNeeded, Message: why + "; restart the host, or allow it"}
	}
	if err := w.System.Reboot(ctx, why, rebootDelay); err != nil {
		return fmt.Errorf("restarting the host: %w", err)
	}
	w.recordChange("restarting: %s", why)
	return errRebooting
}

// rebootDelay leaves time to answer.
const rebootDelay = 5 * time.Second
