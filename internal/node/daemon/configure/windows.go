package configure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

const (
	// maxRestarts is how often a join restarts a host, unless the user requests a retry.
	maxRestarts = 2
	// featureTimeout and enableTimeout are how long Windows may take to report the state of a feature, and to enable it.
	featureTimeout = 3 * time.Minute
	enableTimeout  = 10 * time.Minute
	// rebootDelay leaves time to send the answer.
	rebootDelay = 5 * time.Second
)

// windows manages the settings of Windows that take effect with a restart.
type windows struct {
	work
	facts wicdapi.HostFacts
	// hostname is the new computer name; empty keeps the current one.
	hostname string
	// registers means that the cluster has no Node of this host.
	registers, mayReboot bool
	// features are the wanted features, former is the host's previous state.
	features []string
	former   former
	// pastRestarts are the restarts that this join has made.
	pastRestarts state.Restarts
	// unfinished is what Windows has not completed yet.
	unfinished hostapi.Unfinished
	// rebooting are the causes for which the host restarts now.
	rebooting []cause
}

// cause is the cause of a restart: the key under which it is remembered, and a description.
type cause struct{ key, why string }

// servicingCause is the cause for servicing that something else began.
const servicingCause = "servicing"

func featureCause(name string) string  { return "feature " + name }
func hostnameCause(name string) string { return "host name " + strings.ToLower(name) }

// why describes the causes of the restart.
func (w *windows) why() string {
	var reason []string
	for _, c := range w.rebooting {
		reason = append(reason, c.why)
	}
	return strings.Join(reason, "; ")
}

// await ends the join while Windows completes its setup, features or updates, because a restart then would damage it.
func (w *windows) await(ctx context.Context) (err error) {
	if w.features, err = w.missingFeatures(ctx); err != nil {
		return err
	}
	changes := len(w.features) > 0 || w.isRenamed()
	if !changes && w.former.Node != "" {
		return nil
	}
	if w.unfinished, err = w.NextStart.Unfinished(ctx); err != nil {
		return fmt.Errorf("reading what Windows has not completed: %w", err)
	}
	awaited := w.unfinished
	if !changes {
		awaited.Servicing = nil // it may continue during the rest of the join
	}
	return AwaitWindows(awaited, joinContinues)
}

// missingFeatures returns the features that may be missing on the host. Only they need DISM, which is slow, and which does not work on
// every host that works as a node.
func (w *windows) missingFeatures(ctx context.Context) (names []string, err error) {
	if w.pastRestarts, err = state.ReadRestarts(w.Disk, w.pastRestarts.Retried); err != nil {
		return nil, err
	}
	for _, name := range w.features {
		isEnabled := w.former.Complete && slices.Contains(w.former.Desired.Features, name)
		if name == desired.ContainersFeature && !isEnabled && !w.pastRestarts.RequestedIn(w.facts.BootID) {
			if isEnabled, err = w.hasContainers(ctx); err != nil {
				return nil, err
			}
		}
		if isEnabled || name == desired.HyperVFeature && !w.mayReboot { // WICD handles it once the host is a node
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

// hasContainers reports whether the services of feature Containers are installed. It reports false if they may belong to another feature: to
// Hyper-V, or to the Virtual Machine Platform, which Windows Subsystem for Linux needs (services WSLService and LxssManager).
func (w *windows) hasContainers(ctx context.Context) (bool, error) {
	services, others := []string{"hns", "vmcompute"}, []string{"vmms", "WSLService", "LxssManager"}
	list, err := w.Services.List(ctx, slices.Concat(services, others))
	if err != nil {
		return false, fmt.Errorf("listing the services of feature %s: %w", desired.ContainersFeature, err)
	}
	found := 0
	for _, s := range list {
		hasName := func(name string) bool { return strings.EqualFold(name, s.Name) }
		if slices.ContainsFunc(others, hasName) {
			return false, nil
		}
		if slices.ContainsFunc(services, hasName) {
			found++
		}
	}
	return found == len(services), nil
}

// isRenamed reports whether Windows gets another name. Case matters, because some cloud controllers compare names exactly; but for case alone, only
// a host without a Node is restarted, and once.
func (w *windows) isRenamed() bool {
	if w.hostname == "" || w.hostname == w.facts.Hostname {
		return false
	}
	if !strings.EqualFold(w.hostname, w.facts.Hostname) {
		return true
	}
	return w.registers && w.mayReboot && w.pastRestarts.Since(hostnameCause(w.hostname), w.facts.BootID) == nil
}

// rename sets the requested computer name. The name is requested only once, so that a later rename by an administrator is not reverted.
func (w *windows) rename(ctx context.Context) error {
	if w.hostname == "" {
		return nil
	}
	if err := w.facts.Must(wicdapi.FactHostname, wicdapi.FactBootID); err != nil {
		return err
	}
	if !w.isRenamed() {
		return nil
	}
	reason := fmt.Sprintf("changing the host's name from %s to %s needs a restart", w.facts.Hostname, w.hostname)
	if !w.mayReboot {
		return &wicdapi.Error{Code: wicdapi.CodeRebootNeeded, Message: reason + "; a join does not restart a host that has a Node: rename and restart the host"}
	}
	key := hostnameCause(w.hostname)
	if previous := w.pastRestarts.Since(key, w.facts.BootID); previous != nil {
		return ineffectiveRestart(previous, fmt.Sprintf("the host's name is %s again instead of %s: something sets it at each start, such as guest customization, "+
			"a cloud agent, or a group policy; configure the name there", w.facts.Hostname, w.hostname))
	}
	if err := w.NextStart.Rename(ctx, w.hostname); err != nil {
		return fmt.Errorf("renaming the host: %w", err)
	}
	w.rebooting = append(w.rebooting, cause{key, reason})
	return nil
}

// ineffectiveRestart returns the error for a cause that persists after a restart.
func ineffectiveRestart(restart *state.Restart, problem string) error {
	return &wicdapi.Error{Code: wicdapi.CodeRebootDidNotHelp, Message: fmt.Sprintf(
		"the restart at %s did not help, and the host is not restarted again for the same cause unless you run kubectl windows retry: %s", restart.At.Format(time.RFC3339), problem)}
}

// restart restarts Windows once for everything that needs it. The join is repeated after it. The causes are written to disk before the restart; if
// that fails, there is none.
func (w *windows) restart(ctx context.Context) error {
	if len(w.rebooting) == 0 {
		return nil
	}
	reason := w.why()
	if !w.mayReboot {
		return &wicdapi.Error{Code: wicdapi.CodeRebootNeeded, Message: reason + "; a join does not restart a host that has a Node: restart the host"}
	}
	if err := w.facts.Must(wicdapi.FactBootID); err != nil {
		return fmt.Errorf("restarting the host: its boot ID is needed: %w", err)
	}
	next := state.Restart{Boot: w.facts.BootID, At: time.Now().UTC().Truncate(time.Second)}
	for _, c := range w.rebooting {
		if previous := w.pastRestarts.Since(c.key, w.facts.BootID); previous != nil {
			return ineffectiveRestart(previous, c.why)
		}
		next.Causes = append(next.Causes, c.key)
	}
	made := w.pastRestarts.With(next)
	if len(made.Made) > maxRestarts {
		return ineffectiveRestart(&w.pastRestarts.Made[len(w.pastRestarts.Made)-1], reason)
	}
	if err := made.Write(w.Disk); err != nil {
		return fmt.Errorf("recording the restart before it begins: %w", err)
	}
	if err := w.System.Reboot(ctx, reason, rebootDelay); err != nil {
		return fmt.Errorf("restarting the host: %w", err)
	}
	w.recordChange("restarting: %s", reason)
	return errRebooting
}

// forgetRestarts removes the recorded restarts after a join, because the next join has its own causes.
func (w *windows) forgetRestarts(context.Context) error { return state.ForgetRestarts(w.Disk) }

// withRemedy adds the errors in DISM's log and a remedy to an error about a feature.
func (w *windows) withRemedy(err error) error {
	if errors.Is(err, errDISMSilent) {
		return &wicdapi.Error{Code: wicdapi.CodeDISMSilent, Message: fmt.Sprintf(
			"%v: Windows Update may be using the component store, or DISM may be hanging; the join is retried; if this persists, see %s, and restart the host", err, dismLog)}
	}
	failed, ok := errors.AsType[*hostapi.FeatureError](err)
	if !ok {
		return err
	}
	remedy := "repair the component store, or enable the feature manually"
	switch {
	case failed.NeedsRestart():
		remedy = "restart the host"
	case failed.LacksSource():
		remedy = `Windows found no source files for the feature: give the host access to Windows Update, configure WSUS to provide features on demand, or set a source ` +
			`in the group policy "Specify settings for optional component installation and component repair" (value LocalSourcePath)`
	}
	return fmt.Errorf("%w; %s; %s", err, remedy, cmp.Or(dismErrors(w.Disk), dismLog+" contains no error"))
}
