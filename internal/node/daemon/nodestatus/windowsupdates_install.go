package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

const (
	// ordersInterval is the pause between checks for an order to install updates.
	ordersInterval = 10 * time.Second
	// fetchTimeout is how long a search and a download may take. The agent continues a download that was cut.
	fetchTimeout = 4 * time.Hour
	// installTimeout is how long an installation may take, with the time for which the agent is busy with another one.
	installTimeout = 2 * time.Hour
	// confirmTimeout is how long Windows may take to complete an installation after the restart.
	confirmTimeout = time.Hour
	// orderRetry is the pause after an attempt for which the agent was busy or silent.
	orderRetry = time.Minute
)

// fetch has the agent search for updates, and download those that are selected. What fails is in the report.
func (u *WindowsUpdates) fetch(ctx context.Context, selection windowsupdate.Selection) (windowsupdate.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	report, err := u.Host.UpdateAgent.Search(ctx)
	if err != nil {
		return report, err
	}
	searched := u.get().report.Searched
	if !report.Disabled && !report.Failed(windowsupdate.CallOnline) { // the agent's own date covers only automatic searches
		searched = report.Read
	}
	var ids []string
	for _, update := range report.Selected(selection) {
		if !update.Downloaded && len(ids) < windowsupdate.MaxSelected {
			ids = append(ids, update.ID)
		}
	}
	if len(ids) > 0 {
		report = u.download(ctx, report, ids)
	}
	report.Searched = nodestate.Later(report.Searched, searched)
	return report.Bounded(), nil
}

// download downloads updates of a report, and returns the report after it.
func (u *WindowsUpdates) download(ctx context.Context, report windowsupdate.Report, ids []string) windowsupdate.Report {
	outcome, err := u.Host.UpdateAgent.Download(ctx, ids)
	if err == nil && outcome.Failure == nil {
		for _, id := range ids {
			if result, found := outcome.Of(id); found && !result.Succeeded() {
				outcome.Failure = &windowsupdate.Failure{Call: windowsupdate.CallDownload, Code: result.Code}
			}
		}
	}
	if after, updatesErr := u.Host.UpdateAgent.Updates(ctx); updatesErr == nil {
		after.Failures = append(after.Failures, report.Failures...)
		report = after
	}
	switch {
	case err != nil:
		u.Log.Warn("Downloading updates failed", "error", err.Error())
		report.Failures = append(report.Failures, windowsupdate.Failure{Call: windowsupdate.CallDownload})
	case outcome.Failure != nil:
		u.Log.Warn("Downloading updates failed", "error", outcome.Failure.String())
		report.Failures = append(report.Failures, *outcome.Failure)
	}
	return report
}

// summarize returns the summary of what was last learned.
func (u *WindowsUpdates) summarize(current updates) windowsupdate.Summary {
	s := current.report.Summary(current.failure)
	if selection := u.Wanted.UpdatesToInstall; selection != nil {
		s.Offers, s.Installation = current.report.Offers(*selection), current.installation
	}
	return s
}

// followOrder carries out the operator's last order as far as possible, and reports its state. A step that was interrupted is repeated.
func (u *WindowsUpdates) followOrder(ctx context.Context) {
	o, found, err := state.ReadUpdateOrder(u.Host.Disk)
	if err != nil {
		u.Log.Warn("Reading the order to install updates failed", "error", err.Error())
		return
	}
	if !found || time.Now().Before(u.retryAt) {
		return
	}
	u.report(o.Installation)
	if o.IsFinal() {
		return
	}
	next := u.advance(ctx, o)
	if ctx.Err() != nil {
		return
	}
	if next.State != o.State {
		u.RecordChange("installation %s of updates %s: %s %s", o.Order, strings.Join(o.KBs, ", "), next.State, next.Message)
	}
	if !reflect.DeepEqual(next, o) {
		if err := u.replace(ctx, next); err != nil {
			u.Log.Warn("Storing the state of an installation of updates failed", "error", err.Error())
			return
		}
	}
	u.report(next.Installation)
}

// cancelOrder ends an order that was not carried out before WindowsConfig was changed, and reports whether that is done: it must not continue later,
// without a drain.
func (u *WindowsUpdates) cancelOrder() bool {
	o, found, err := state.ReadUpdateOrder(u.Host.Disk)
	if err == nil && (!found || o.IsFinal()) {
		return true
	}
	if err == nil {
		err = u.IfIdle(func() error {
			return end(o, windowsupdate.Failed, "spec.windowsUpdates.policy of WindowsConfig is no longer Install").Write(u.Host.Disk)
		})
	}
	if err != nil && !errors.Is(err, state.ErrBusy) {
		u.Log.Warn("Ending an order to install updates failed", "error", err.Error())
	}
	return err == nil
}

func (u *WindowsUpdates) mayInstall() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.isCordoned
}

// replace stores the next state of an order, unless the operator has sent another one since.
func (u *WindowsUpdates) replace(ctx context.Context, next state.UpdateOrder) error {
	return u.WhileCurrent(ctx, func() error {
		current, found, err := state.ReadUpdateOrder(u.Host.Disk)
		if err != nil || !found || current.Order != next.Order {
			return err
		}
		return next.Write(u.Host.Disk)
	})
}

// report has the Node show the state of an installation.
func (u *WindowsUpdates) report(i windowsupdate.Installation) {
	u.mu.Lock()
	changed := u.last.installation == nil || *u.last.installation != i
	u.last.installation = &i
	u.mu.Unlock()
	if changed {
		u.wake.Send()
	}
}

func (u *WindowsUpdates) advance(ctx context.Context, o state.UpdateOrder) state.UpdateOrder {
	boot, err := u.Host.NextStart.Boot(ctx)
	switch {
	case err != nil:
		return u.retry(o, fmt.Sprintf("reading the boot ID failed: %v", err))
	case o.State == windowsupdate.Installing:
		return u.install(ctx, o, boot)
	case boot == o.Boot:
		return o // the operator restarts the host
	case !o.Installed:
		o.Boot = ""
		return end(o, windowsupdate.Installing, "")
	}
	return u.confirm(ctx, o)
}

// retry leaves the state and tries again later.
func (u *WindowsUpdates) retry(o state.UpdateOrder, message string) state.UpdateOrder {
	u.retryAt = time.Now().Add(orderRetry)
	o.Message = truncate.Text(message, truncate.Reported)
	return o
}

func end(o state.UpdateOrder, s windowsupdate.InstallationState, message string) state.UpdateOrder {
	o.State, o.Message = s, truncate.Text(message, truncate.Reported)
	return o
}

// install installs what is still pending of an order. Then it queries the agent again, so that the Node does not offer what is installed.
func (u *WindowsUpdates) install(ctx context.Context, o state.UpdateOrder, boot string) state.UpdateOrder {
	ctx, cancel := context.WithDeadline(ctx, o.Received.Add(installTimeout))
	defer cancel()
	if ctx.Err() != nil {
		return end(o, windowsupdate.Failed, fmt.Sprintf("not installed within %s: %s", installTimeout, o.Message))
	}
	if !u.mayInstall() { // proof that the operator has drained it
		return u.retry(o, "the node is not cordoned")
	}
	if o.Removes > 0 {
		return u.uninstall(ctx, o, boot)
	}
	report, err := u.Host.UpdateAgent.Updates(ctx)
	if err != nil {
		return u.retry(o, err.Error())
	}
	chosen, restart, problem := choose(report, *u.Wanted.UpdatesToInstall, o.KBs)
	switch {
	case problem != "":
		return end(o, windowsupdate.Failed, problem)
	case len(chosen) > 0:
		var ids []string
		for _, update := range chosen {
			ids = append(ids, update.ID)
		}
		u.RecordChange("installing updates %s", strings.Join(o.KBs, ", "))
		outcome, err := u.Host.UpdateAgent.Install(ctx, ids)
		if err != nil {
			return u.retry(o, err.Error())
		}
		if f := outcome.Failure; f != nil && f.IsBusy() {
			return u.retry(o, f.String())
		}
		if outcome.RestartFirst && !o.RestartFirst {
			o.RestartFirst, o.Boot = true, boot
			return end(o, windowsupdate.RestartRequired, "an earlier installation waits for a restart")
		}
		problem, restart = failureOf(outcome, chosen), restart || outcome.Restart
		u.refresh(ctx)
	default:
		u.refresh(ctx) // Windows, or an attempt that was cut, has installed them
	}
	switch {
	case problem != "":
		return end(o, windowsupdate.Failed, problem)
	case restart:
		o.Boot, o.Installed = boot, true
		return end(o, windowsupdate.RestartRequired, "")
	}
	return end(o, windowsupdate.Done, "")
}

// refresh queries the agent for what is pending now, without a search.
func (u *WindowsUpdates) refresh(ctx context.Context) {
	report, err := u.Host.UpdateAgent.Updates(ctx)
	if err != nil {
		u.Log.Warn("Querying the Windows Update Agent failed", "error", err.Error())
		return
	}
	report.Searched = nodestate.Later(report.Searched, u.get().report.Searched)
	u.keep(ctx, report.Bounded())
}

// choose returns the pending updates with these articles. restart means that one of them is installed and takes effect with a restart. problem is why
// nothing may be installed; empty if something may.
func choose(r windowsupdate.Report, selection windowsupdate.Selection, kbs []string) (chosen []windowsupdate.Update, restart bool, problem string) {
	if _, isKnown := r.Counts(); !isKnown {
		return nil, false, "the Windows Update Agent does not report pending updates: " + r.Summary(nil).Blocked
	}
	for _, update := range r.Pending {
		switch {
		case !update.HasArticle(kbs):
		case update.RestartPending:
			restart = true
		case !selection.Selects(update):
			return nil, false, fmt.Sprintf("%s is not selected by spec.windowsUpdates of WindowsConfig", strings.Join(update.KBs, ", "))
		default:
			chosen = append(chosen, update)
		}
	}
	if len(chosen) > windowsupdate.MaxSelected {
		return nil, false, fmt.Sprintf("%d updates have these articles; at most %d can be installed at once", len(chosen), windowsupdate.MaxSelected)
	}
	return chosen, restart, ""
}

// failureOf returns why an installation failed; empty if it did not.
func failureOf(o windowsupdate.Outcome, chosen []windowsupdate.Update) string {
	if o.RestartFirst {
		return "an earlier installation still waits for a restart after the host was restarted"
	}
	if o.Failure != nil {
		return o.Failure.String()
	}
	var failures []string
	for _, update := range chosen {
		name := strings.Join(update.KBs, ", ")
		switch result, found := o.Of(update.ID); {
		case !found:
			failures = append(failures, name+" is no longer downloaded or pending")
		case !result.Succeeded():
			failures = append(failures, name+" "+result.String())
		}
	}
	return strings.Join(failures, "; ")
}

// uninstall removes the cumulative update that brought Windows to its present revision, if it still has this revision.
func (u *WindowsUpdates) uninstall(ctx context.Context, o state.UpdateOrder, boot string) state.UpdateOrder {
	build, revision, err := u.Host.Inventory.Version(ctx)
	if err != nil {
		return u.retry(o, err.Error())
	}
	if revision != o.Removes {
		return end(o, windowsupdate.Failed, fmt.Sprintf("Windows has revision %d now, not %d", revision, o.Removes))
	}
	u.RecordChange("uninstalling the cumulative update with revision %d.%d (%s)", build, revision, strings.Join(o.KBs, ", "))
	restart, err := u.Host.UpdateAgent.Uninstall(ctx, build, revision)
	switch refused := (*hostapi.FeatureError)(nil); {
	case errors.Is(err, hostapi.ErrNotFound), errors.As(err, &refused):
		return end(o, windowsupdate.Failed, err.Error())
	case err != nil:
		return u.retry(o, err.Error())
	case restart:
		o.Boot, o.Installed = boot, true
		return end(o, windowsupdate.RestartRequired, "")
	}
	return u.confirmRemoval(ctx, o)
}

// confirmRemoval checks whether Windows has returned to an earlier revision.
func (u *WindowsUpdates) confirmRemoval(ctx context.Context, o state.UpdateOrder) state.UpdateOrder {
	_, revision, err := u.Host.Inventory.Version(ctx)
	switch {
	case err != nil:
		return u.retry(o, err.Error())
	case revision >= o.Removes:
		return u.retry(o, fmt.Sprintf("Windows still has revision %d", revision))
	}
	u.refresh(ctx)
	return end(o, windowsupdate.Done, fmt.Sprintf("Windows has revision %d", revision))
}

// confirm checks, after a restart, whether Windows has kept the updates, or removed the one that was uninstalled.
func (u *WindowsUpdates) confirm(ctx context.Context, o state.UpdateOrder) state.UpdateOrder {
	if o.Restarted.IsZero() {
		o.Restarted = time.Now().UTC()
	}
	limit := o.Restarted.Add(confirmTimeout)
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	if ctx.Err() != nil {
		return end(o, windowsupdate.Failed, fmt.Sprintf("not completed by %s: %s", limit.Format(time.RFC3339), o.Message))
	}
	if o.Removes > 0 {
		return u.confirmRemoval(ctx, o)
	}
	report, err := u.Host.UpdateAgent.Updates(ctx)
	if err != nil {
		return u.retry(o, err.Error())
	}
	if _, isKnown := report.Counts(); !isKnown {
		return u.retry(o, "the Windows Update Agent does not report pending updates yet")
	}
	for _, update := range report.Pending {
		switch {
		case !update.HasArticle(o.KBs):
		case update.RestartPending:
			return u.retry(o, "Windows has not completed the installation since its restart")
		default:
			u.refresh(ctx)
			return end(o, windowsupdate.Failed, undone(report, update))
		}
	}
	u.refresh(ctx)
	return end(o, windowsupdate.Done, "")
}

// undone describes an update that Windows rolled back.
func undone(r windowsupdate.Report, update windowsupdate.Update) string {
	text := "Windows rolled back " + strings.Join(update.KBs, ", ") + " during its restart"
	for _, o := range r.History {
		if slices.Contains(update.KBs, o.KB) && !o.Uninstall && o.Result == windowsupdate.ResultFailed {
			return text + ": " + windowsupdate.Describe(o.Code)
		}
	}
	return text
}
