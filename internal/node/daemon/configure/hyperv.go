package configure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

const (
	// hyperVInterval is how often the state of Hyper-V is checked. Only a restart of Windows, or an administrator, changes it.
	hyperVInterval = time.Hour
	// hyperVTimeout is how long Windows may take to enable the feature.
	hyperVTimeout = 20 * time.Minute
)

// hyperVState is a host's ability to run Hyper-V isolation: a reason and message of condition WindowsHyperVCapable.
type hyperVState struct{ reason, message string }

// hyperVStateOf returns the host's state from its facts and the state of the feature.
func hyperVStateOf(f wicdapi.HostFacts, current wicdapi.FeatureState) hyperVState {
	v := f.Virtualization
	switch {
	case current == wicdapi.FeatureEnabled && v.HyperV:
		return hyperVState{api.ReasonHyperVRuns, "Hyper-V is running; pods can use Hyper-V isolation"}
	case current != wicdapi.FeatureEnabled && current != wicdapi.FeaturePending && current != wicdapi.FeatureDisabled:
		return hyperVState{api.ReasonHyperVUnavailable, fmt.Sprintf(
			"this edition of Windows (%.64q) does not have feature %s; pods with Hyper-V isolation need a host with Windows Server Standard or Datacenter", f.Product, desired.HyperVFeature)}
	case !v.Processor && !v.HyperV && v.Hypervisor == "":
		return hyperVState{api.ReasonVirtualizationUnavailable, "the processor or its firmware does not allow virtual machines with second level address translation; " +
			"enable Intel VT-x or AMD-V in the firmware of the host, then restart it"}
	case !v.Processor && !v.HyperV:
		return hyperVState{api.ReasonVirtualizationUnavailable, fmt.Sprintf("the host is a virtual machine of hypervisor %.16q, which does not allow nested virtual machines; "+
			"enable nested virtualization for it, or use a machine type that supports it, then restart the host", v.Hypervisor)}
	case current == wicdapi.FeaturePending:
		return hyperVState{api.ReasonHyperVRestartPending, fmt.Sprintf("feature %s takes effect after a restart of the host; "+
			"set spec.rollout.reboots of WindowsConfig to Allowed, or request it with kubectl windows reboot", desired.HyperVFeature)}
	case current == wicdapi.FeatureDisabled:
		return hyperVState{api.ReasonHyperVDisabled, fmt.Sprintf("feature %s of Windows is not enabled yet", desired.HyperVFeature)}
	}
	return hyperVState{api.ReasonHypervisorStopped, fmt.Sprintf("feature %s is enabled, but its hypervisor is not running; "+
		"on the host, run bcdedit /set hypervisorlaunchtype auto, then restart it", desired.HyperVFeature)}
}

// canBeEnabled reports whether enabling the feature, or a restart after it, makes Hyper-V run.
func (s hyperVState) canBeEnabled() bool {
	return s.reason == api.ReasonHyperVDisabled || s.reason == api.ReasonHyperVRestartPending
}

// HyperV enables the feature on a host that is already a node, if it is wanted, and reports the host's state to the Node. It does not restart
// Windows: the pending restart is reported like any other, and the operator plans it.
type HyperV struct {
	state.Session
	wake   state.Signal
	reboot *nodestatus.RebootPending

	mu sync.Mutex
	// last is the result of the last check.
	last hyperVState
}

// NewHyperV returns a HyperV that sends wake when there is something new to report.
func NewHyperV(s state.Session, wake state.Signal, r *nodestatus.RebootPending) *HyperV {
	return &HyperV{Session: s, wake: wake, reboot: r}
}

// Run checks the state of Hyper-V until ctx is done.
func (h *HyperV) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := hyperVInterval
		current, err := h.reconcile(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, state.ErrBusy):
			wait = settingsSoon
		case err != nil:
			h.Log.Warn("Reading the state of Hyper-V failed", "error", err.Error())
			wait = settingsInterval
		default:
			h.set(current)
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// reconcile checks the host, and enables the feature where it is missing.
func (h *HyperV) reconcile(ctx context.Context) (hyperVState, error) {
	if !slices.Contains(h.Wanted.Features, desired.HyperVFeature) {
		return hyperVState{api.ReasonHyperVNotWanted, "WindowsConfig no longer requests Hyper-V isolation; the Windows feature is not removed"}, nil
	}
	current, err := h.current(ctx)
	if err != nil {
		return hyperVState{}, err
	}
	if current.reason != api.ReasonHyperVDisabled {
		return current, nil
	}
	h.set(current) // enabling takes Windows a while
	var failure error
	err = h.IfIdle(func() error {
		ctx, cancel := context.WithTimeout(ctx, hyperVTimeout)
		defer cancel()
		if _, failure = h.Host.System.EnableFeature(ctx, desired.HyperVFeature); failure == nil {
			h.RecordChange(featureEnabled, desired.HyperVFeature)
		}
		return nil
	})
	if err != nil {
		return current, err
	}
	if failure != nil {
		return hyperVState{api.ReasonHyperVEnablingFailed, truncate.Text(fmt.Sprintf("%v; WICD retries within an hour", failure), truncate.Note)}, nil
	}
	h.reboot.Recheck()
	return h.current(ctx)
}

// current returns the host's current state.
func (h *HyperV) current(ctx context.Context) (hyperVState, error) {
	facts, err := h.Host.System.Facts(ctx)
	if err != nil {
		return hyperVState{}, err
	}
	current, err := stateOf(ctx, h.Host.System, desired.HyperVFeature)
	if err != nil {
		return hyperVState{}, err
	}
	return hyperVStateOf(facts, current), nil
}

// set stores the host's state, and sends wake if it changed.
func (h *HyperV) set(current hyperVState) {
	h.mu.Lock()
	changed := h.last != current
	h.last = current
	h.mu.Unlock()
	if changed {
		h.wake.Send()
	}
}

// ReportTo reports the host's state by a condition. A node for which Hyper-V isolation was never requested has none.
func (h *HyperV) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	h.mu.Lock()
	current := h.last
	h.mu.Unlock()
	next := corev1.NodeCondition{Type: api.ConditionHyperVCapable, Status: corev1.ConditionFalse, Reason: current.reason, Message: current.message}
	switch current.reason {
	case "":
		return nil
	case api.ReasonHyperVRuns:
		next.Status = corev1.ConditionTrue
	case api.ReasonHyperVNotWanted:
		next.Status = corev1.ConditionUnknown
		if nodestate.Condition(node, next.Type) == nil {
			return nil
		}
	}
	return w.SetCondition(ctx, node, next)
}
