package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Offer is an update that the server of the computer has.
type Offer struct {
	// Update is as the agent reports it. ID must be set; Downloaded and RestartPending are the computer's own.
	windowsupdate.Update
	// Takes is how long its installation takes.
	Takes time.Duration
	// DownloadCode and Code are the HRESULTs with which its download and its installation fail; 0 if they succeed.
	DownloadCode, Code uint32
	// Revision is the revision of Windows with it; 0 if it does not change it.
	Revision int
	// Undone means that Windows takes it back at each start that should complete it. It is pending again then.
	Undone bool
	// Installed is called at the first start after its installation, before services start, or right after it if it needs no restart. It may break
	// the computer. nil changes nothing.
	Installed func(*Windows)
}

// localUpdates are the updates that the computer knows.
type localUpdates struct {
	// all are in the order in which they were found.
	all []*localUpdate
	// history has the operations of the agent, the last one first.
	history []windowsupdate.Operation
	// previous are the revisions of Windows before those of the cumulative updates. isRemoving means that the last one goes at the next start.
	previous   []int
	isRemoving bool
}

// localUpdate is an update as the computer knows it.
type localUpdate struct {
	Offer
	// isDone is true if it is installed, and waits for no restart.
	isDone bool
}

// Errors of updates: CBS_E_INSTALLERS_FAILED and ERROR_SERVICE_DISABLED as an HRESULT.
const undone, serviceDisabled = 0x800f0922, 0x80070422

// pending returns the updates that are not installed, with those that wait for a restart.
func (l *localUpdates) pending() []*localUpdate {
	return slices.DeleteFunc(slices.Clone(l.all), func(u *localUpdate) bool { return u.isDone })
}

// find returns a pending update; nil if there is none.
func (l *localUpdates) find(id string) *localUpdate {
	all := l.pending()
	if i := slices.IndexFunc(all, func(u *localUpdate) bool { return u.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}

func (l *localUpdates) isRestartPending() bool {
	return slices.ContainsFunc(l.all, func(u *localUpdate) bool { return u.RestartPending })
}

// record adds an operation to the history.
func (l *localUpdates) record(u *localUpdate, result windowsupdate.Result, code uint32) {
	o := windowsupdate.Operation{Date: time.Now(), Title: u.Title, KB: windowsupdate.KBOf(strings.Join(append(slices.Clone(u.KBs), u.Title), " ")), Class: u.Class}
	o.Result, o.Code = result, code
	l.history = slices.Insert(l.history, 0, o)
}

// offers returns what the server has, with the definitions that each computer has found.
func (u *Updates) offers() []Offer {
	all := slices.Clone(u.Offers)
	if !slices.ContainsFunc(all, func(o Offer) bool { return o.ID == definitions().ID }) {
		all = append(all, Offer{Update: definitions()})
	}
	return all
}

// currentLocked returns an update as its server has it now; as it was found, if the server has it no longer. The caller holds the lock.
func (w *Windows) currentLocked(u *localUpdate) Offer {
	for _, o := range w.updates.Offers {
		if o.ID == u.ID {
			return o
		}
	}
	return u.Offer
}

// search finds what the server has, and returns an HRESULT.
func (b *boot) search(ctx context.Context) (code uint32, err error) {
	if err := b.lock(ctx); err != nil {
		return 0, silentOf(err)
	}
	w := b.w
	defer w.mu.Unlock()
	if w.updates.SearchCode != 0 {
		return w.updates.SearchCode, nil
	}
	before := w.local.all
	w.local.all = nil
	for _, o := range w.updates.offers() {
		u := &localUpdate{}
		if i := slices.IndexFunc(before, func(u *localUpdate) bool { return u.ID == o.ID }); i >= 0 {
			u = before[i]
		}
		o.Downloaded, o.RestartPending = u.Downloaded, u.RestartPending
		u.Offer = o
		w.local.all = append(w.local.all, u)
	}
	for _, u := range before { // what is installed stays, even without its server
		if (u.isDone || u.RestartPending) && !slices.Contains(w.local.all, u) {
			w.local.all = append(w.local.all, u)
		}
	}
	return 0, nil
}

// Download implements hostapi.UpdateAgent.
func (a updateAgent) Download(ctx context.Context, ids []string) (windowsupdate.Outcome, error) {
	return a.operate(ctx, ids, func(u *Updates) { u.Downloads++ }, a.boot.download)
}

// Install implements hostapi.UpdateAgent.
func (a updateAgent) Install(ctx context.Context, ids []string) (windowsupdate.Outcome, error) {
	return a.operate(ctx, ids, func(u *Updates) { u.Installs++ }, a.boot.install)
}

// operation downloads or installs updates, and adds its results to an outcome.
type operation func(ctx context.Context, ids []string, o *windowsupdate.Outcome) error

func (a updateAgent) operate(ctx context.Context, ids []string, count func(*Updates), do operation) (windowsupdate.Outcome, error) {
	if err := windowsupdate.CheckIDs(ids); err != nil {
		return windowsupdate.Outcome{}, err
	}
	current, err := a.ask(ctx, count)
	if err != nil {
		return windowsupdate.Outcome{}, err
	}
	if current.Output != "" {
		return windowsupdate.ParseOutcome([]byte(current.Output))
	}
	r, err := a.boot.updateReport(ctx, current.Edit)
	if err != nil {
		return windowsupdate.Outcome{}, err
	}
	var o windowsupdate.Outcome
	if r.Disabled {
		o.Failure = &windowsupdate.Failure{Call: windowsupdate.CallPending, Code: serviceDisabled}
	} else if err := do(ctx, slices.Compact(slices.Sorted(slices.Values(ids))), &o); err != nil {
		return windowsupdate.Outcome{}, err
	}
	output, err := json.Marshal(o)
	if err != nil {
		return windowsupdate.Outcome{}, err
	}
	return windowsupdate.ParseOutcome(output)
}

// download takes no time.
func (b *boot) download(ctx context.Context, ids []string, o *windowsupdate.Outcome) error {
	if err := b.lock(ctx); err != nil {
		return silentOf(err)
	}
	defer b.w.mu.Unlock()
	for _, id := range ids {
		u := b.w.local.find(id)
		if u == nil {
			continue
		}
		var code uint32
		if !u.Downloaded && !u.RestartPending {
			if err := b.changeLocked("download " + id); err != nil {
				return err
			}
			code = b.w.currentLocked(u).DownloadCode
			u.Downloaded = code == 0
		}
		o.Results = append(o.Results, resultOf(id, code))
	}
	return nil
}

// resultOf returns the result of an update with an HRESULT.
func resultOf(id string, code uint32) windowsupdate.UpdateResult {
	if code != 0 {
		return windowsupdate.UpdateResult{ID: id, Result: windowsupdate.ResultFailed, Code: code}
	}
	return windowsupdate.UpdateResult{ID: id, Result: windowsupdate.ResultSucceeded}
}

// install installs one update after the other.
func (b *boot) install(ctx context.Context, ids []string, o *windowsupdate.Outcome) error {
	chosen, err := b.beginInstallation(ctx, ids, o)
	if err != nil || len(chosen) == 0 {
		return err
	}
	defer func() {
		b.w.mu.Lock()
		defer b.w.mu.Unlock()
		b.installing = false
	}()
	for _, u := range chosen {
		result, restart, err := b.installUpdate(ctx, u)
		if err != nil {
			return err
		}
		o.Results = append(o.Results, result)
		o.Restart = o.Restart || restart
	}
	return nil
}

// beginInstallation returns the updates that are to be installed; none if the installer cannot begin.
func (b *boot) beginInstallation(ctx context.Context, ids []string, o *windowsupdate.Outcome) (chosen []*localUpdate, err error) {
	if err := b.lock(ctx); err != nil {
		return nil, silentOf(err)
	}
	w := b.w
	defer w.mu.Unlock()
	for _, id := range ids {
		switch u := w.local.find(id); {
		case u == nil:
		case u.RestartPending:
			o.Results, o.Restart = append(o.Results, resultOf(id, 0)), true
		case u.Downloaded:
			chosen = append(chosen, u)
		}
	}
	switch {
	case len(chosen) == 0:
	case w.updates.RestartFirst:
		o.RestartFirst = true
		return nil, nil
	case b.isInstallerBusyLocked():
		o.Failure = &windowsupdate.Failure{Call: windowsupdate.CallBusy, Code: windowsupdate.CodeInProgress}
		return nil, nil
	default:
		b.installing = true
	}
	return chosen, nil
}

// isInstallerBusyLocked reports whether the agent refuses to install. The caller holds the lock.
func (b *boot) isInstallerBusyLocked() bool {
	q := b.w.options.Quirks.Servicing
	return b.w.updates.Busy || b.installing || time.Since(b.began) < max(q.BusyFor, q.ServicingFor)
}

// installUpdate installs an update. If its process or the computer stops before the end, nothing has changed.
func (b *boot) installUpdate(ctx context.Context, u *localUpdate) (result windowsupdate.UpdateResult, restart bool, err error) {
	w := b.w
	w.mu.Lock()
	takes := w.currentLocked(u).Takes
	w.mu.Unlock()
	if err := b.wait(ctx, takes, false); err != nil {
		return result, false, err
	}
	if err := b.lock(ctx); err != nil {
		return result, false, silentOf(err)
	}
	if err := b.changeLocked("update " + u.ID); err != nil {
		w.mu.Unlock()
		return result, false, err
	}
	current := w.currentLocked(u)
	result = resultOf(u.ID, current.Code)
	w.local.record(u, result.Result, result.Code)
	if result.Succeeded() {
		restart = current.Restart == windowsupdate.RestartAlways
		u.RestartPending, u.isDone = restart, !restart
		if !restart {
			w.raiseRevisionLocked(current.Revision)
		}
	}
	w.mu.Unlock()
	if result.Succeeded() && !restart && current.Installed != nil {
		current.Installed(w)
	}
	return result, restart, nil
}

// completeUpdatesLocked completes the updates that wait for this start, or takes them back. It returns what their installation does to the computer,
// to be called without the lock. The caller holds it.
func (w *Windows) completeUpdatesLocked() (installed []func(*Windows)) {
	w.updates.RestartFirst = false
	if w.local.isRemoving {
		w.removeUpdateLocked()
	}
	for _, u := range w.local.all {
		if !u.RestartPending {
			continue
		}
		current := w.currentLocked(u)
		u.RestartPending, u.isDone = false, !current.Undone
		switch {
		case current.Undone:
			w.local.record(u, windowsupdate.ResultFailed, undone)
			continue
		case current.Installed != nil:
			installed = append(installed, current.Installed)
		}
		w.raiseRevisionLocked(current.Revision)
	}
	return installed
}

// raiseRevisionLocked changes the revision of Windows to that of an update. The caller holds the lock.
func (w *Windows) raiseRevisionLocked(revision int) {
	if revision > w.options.UBR {
		w.local.previous = append(w.local.previous, w.options.UBR)
		w.options.UBR = revision
	}
}

// Uninstall implements hostapi.UpdateAgent.
func (a updateAgent) Uninstall(ctx context.Context, build, revision int) (reboot bool, err error) {
	b := a.boot
	what := fmt.Sprintf("removing the cumulative update with revision %d.%d", build, revision)
	if err := b.dism(ctx); err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := b.changeLocked(what); err != nil {
		return false, err
	}
	switch {
	case build != w.options.Build || revision != w.options.UBR || len(w.local.previous) == 0:
		return false, fmt.Errorf("%s: %w", what, hostapi.ErrNotFound)
	case w.updates.RemoveCode != 0:
		return false, fmt.Errorf("%s: %w", what, &hostapi.FeatureError{Call: "DismRemovePackage", Code: w.updates.RemoveCode})
	}
	w.local.isRemoving = true
	return true, nil
}

// removeUpdateLocked returns to the revision before the last cumulative update, which is pending again. The caller holds the lock.
func (w *Windows) removeUpdateLocked() {
	l := &w.local
	for _, u := range l.all {
		if u.isDone && u.Revision == w.options.UBR {
			u.isDone, u.Downloaded = false, false
		}
	}
	w.options.UBR, l.previous, l.isRemoving = l.previous[len(l.previous)-1], l.previous[:len(l.previous)-1], false
}
