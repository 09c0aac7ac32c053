package sim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Updates is the Windows Update Agent of the computer. By default, Windows searches daily and installs the update of each month, and definitions
// are pending until they are installed once.
type Updates struct {
	// Edit changes the default answer; nil leaves it. What it sets may be beyond the bounds of a report. An update that it adds cannot be installed.
	Edit func(r *windowsupdate.Report)
	// Output replaces the output of the process that asks the agent.
	Output string
	// Takes is how long an answer takes, and how long an operation takes before its first update. Hangs means that there is none.
	Takes time.Duration
	Hangs bool
	// Fails makes each call fail.
	Fails error
	// Offers are what the agent's server has for the computer. What is added or removed is found by the next search at the server; the daily search of
	// Windows itself is not simulated.
	Offers []Offer
	// SearchCode is the HRESULT with which a search at the server fails; 0 if it succeeds.
	SearchCode uint32
	// RestartFirst makes the agent refuse to install until the next start. Windows does not show it as a cause of a restart.
	RestartFirst bool
	// RemoveCode is the HRESULT with which the removal of a cumulative update fails; 0 if it succeeds.
	RemoveCode uint32
	// Busy makes the agent refuse to install. It also does during an installation, and after a start for BusyFor or ServicingFor of ServicingQuirks.
	Busy bool
	// Asked, Searches, Downloads and Installs count the calls of Updates, Search, Download and Install.
	Asked, Searches, Downloads, Installs int
}

// updateAgent is the agent of one boot.
type updateAgent struct{ boot *boot }

// Updates implements hostapi.UpdateAgent.
func (a updateAgent) Updates(ctx context.Context) (windowsupdate.Report, error) {
	return a.report(ctx, func(u *Updates) { u.Asked++ }, false)
}

// Search implements hostapi.UpdateAgent.
func (a updateAgent) Search(ctx context.Context) (windowsupdate.Report, error) {
	return a.report(ctx, func(u *Updates) { u.Searches++ }, true)
}

// report returns a report, after a search at the server if online is true and the agent runs.
func (a updateAgent) report(ctx context.Context, count func(*Updates), online bool) (windowsupdate.Report, error) {
	current, err := a.ask(ctx, count)
	if err != nil {
		return windowsupdate.Report{}, err
	}
	if current.Output != "" {
		return windowsupdate.Parse([]byte(current.Output))
	}
	r, err := a.boot.updateReport(ctx, current.Edit)
	if err == nil && online && !r.Disabled {
		r, err = a.boot.searchedReport(ctx, current.Edit)
	}
	if err != nil {
		return windowsupdate.Report{}, err
	}
	output, err := json.Marshal(r)
	if err != nil {
		return windowsupdate.Report{}, err
	}
	return windowsupdate.Parse(output)
}

// searchedReport searches at the server, and returns what the agent answers then.
func (b *boot) searchedReport(ctx context.Context, edit func(*windowsupdate.Report)) (windowsupdate.Report, error) {
	code, err := b.search(ctx)
	if err != nil {
		return windowsupdate.Report{}, err
	}
	r, err := b.updateReport(ctx, edit)
	if code != 0 {
		r.Failures = slices.Concat([]windowsupdate.Failure{{Call: windowsupdate.CallOnline, Code: code}}, r.Failures)
	}
	return r, err
}

// ask counts a call and waits for the agent. It returns the agent's state at the beginning of the call.
func (a updateAgent) ask(ctx context.Context, count func(*Updates)) (Updates, error) {
	w := a.boot.w
	if err := a.boot.lock(ctx); err != nil {
		return Updates{}, silentOf(err)
	}
	count(&w.updates)
	current := w.updates
	w.mu.Unlock()
	if err := a.boot.wait(ctx, current.Takes, current.Hangs); err != nil {
		return Updates{}, err
	}
	return current, current.Fails
}

// wait waits like a program that may be ended, on a computer that may stop.
func (b *boot) wait(ctx context.Context, d time.Duration, hangs bool) error {
	if d <= 0 && !hangs {
		return silentOf(ctx.Err())
	}
	var over <-chan time.Time
	if !hangs {
		over = time.After(d)
	}
	select {
	case <-ctx.Done():
	case <-b.ctx.Done():
	case <-over:
	}
	if b.isOff() {
		return ErrPower
	}
	return silentOf(ctx.Err())
}

// silentOf returns the error of a call that ended with its context.
func silentOf(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return hostapi.ErrAgentSilent
	}
	return err
}

// updateReport returns what the agent answers now.
func (b *boot) updateReport(ctx context.Context, edit func(*windowsupdate.Report)) (windowsupdate.Report, error) {
	if err := b.lock(ctx); err != nil {
		return windowsupdate.Report{}, silentOf(err)
	}
	w := b.w
	r := healthyUpdates(w.created, time.Now())
	r.History = slices.Concat(w.local.history, r.History)
	for _, u := range w.local.pending() {
		r.Pending = append(r.Pending, u.Update)
		r.Restart = r.Restart || u.RestartPending
	}
	r.Total = len(r.Pending)
	w.mu.Unlock()
	if edit != nil { // without the lock, which it may need
		edit(&r)
	}
	if r.Disabled { // the agent does not run
		r = windowsupdate.Report{Read: r.Read, WindowsInstalled: r.WindowsInstalled, Server: r.Server, NoSearches: r.NoSearches, Disabled: true}
	}
	return r, nil
}

// healthyUpdates is the answer of a computer that searches every day and has installed its first update ten days before it was created, and one
// every four weeks since.
func healthyUpdates(created, now time.Time) windowsupdate.Report {
	const day = 24 * time.Hour
	return windowsupdate.Report{
		Read: now, WindowsInstalled: created.Add(-20 * day), Searched: created.Add(now.Sub(created).Truncate(day) - 3*time.Hour),
		History: []windowsupdate.Operation{
			{
				Date: created.Add(now.Sub(created).Truncate(day) - 2*time.Hour), Title: definitions().Title,
				KB: "KB2267602", Class: windowsupdate.Definition, Result: windowsupdate.ResultSucceeded,
			},
			{
				Date: created.Add(now.Sub(created).Truncate(28*day) - 10*day), Title: "Cumulative Update for Microsoft server operating system (KB5068787)",
				KB: "KB5068787", Class: windowsupdate.Security, Result: windowsupdate.ResultSucceeded,
			},
		},
	}
}

// definitions is the update that each computer has found.
func definitions() windowsupdate.Update {
	return windowsupdate.Update{
		ID: "5a1c7c1e-0000-4000-8000-000000000001", Revision: 200, Title: "Security Intelligence Update for Microsoft Defender Antivirus - KB2267602",
		KBs: []string{"KB2267602"}, Class: windowsupdate.Definition, Restart: windowsupdate.RestartNever,
	}
}

// EditUpdates changes the Windows Update Agent.
func (w *Windows) EditUpdates(edit func(*Updates)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit(&w.updates)
}

// Updates returns the current state of the Windows Update Agent.
func (w *Windows) Updates() Updates {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.updates
}
