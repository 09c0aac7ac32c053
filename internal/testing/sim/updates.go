package sim

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Updates is the Windows Update Agent of the computer. By default, Windows searches daily and installs the update of each month.
type Updates struct {
	// Edit changes the default answer; nil leaves it. What it sets may be beyond the bounds of a report.
	Edit func(r *windowsupdate.Report)
	// Output replaces the output of the process that asks the agent.
	Output string
	// Takes is how long an answer takes. Hangs means that there is none.
	Takes time.Duration
	Hangs bool
	// Fails makes each call fail.
	Fails error
	// Asked counts the calls.
	Asked int
}

// updateAgent is the agent of one boot.
type updateAgent struct{ boot *boot }

// Updates implements hostapi.UpdateAgent.
func (a updateAgent) Updates(ctx context.Context) (windowsupdate.Report, error) {
	w := a.boot.w
	if err := a.boot.lock(ctx); err != nil {
		return windowsupdate.Report{}, err
	}
	w.updates.Asked++
	current := w.updates
	w.mu.Unlock()
	if current.Hangs {
		<-ctx.Done()
	} else if current.Takes > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(current.Takes):
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return windowsupdate.Report{}, hostapi.ErrAgentSilent
	case ctx.Err() != nil:
		return windowsupdate.Report{}, ctx.Err()
	case current.Fails != nil:
		return windowsupdate.Report{}, current.Fails
	case current.Output != "":
		return windowsupdate.Parse([]byte(current.Output))
	}
	r := healthyUpdates(w.created, time.Now())
	if current.Edit != nil {
		current.Edit(&r)
	}
	if r.Disabled { // the agent does not run
		r = windowsupdate.Report{Read: r.Read, WindowsInstalled: r.WindowsInstalled, Server: r.Server, NoSearches: r.NoSearches, Disabled: true}
	}
	output, err := json.Marshal(r)
	if err != nil {
		return windowsupdate.Report{}, err
	}
	return windowsupdate.Parse(output)
}

// healthyUpdates is the answer of a computer that searches every day and has installed its first update ten days before it was created, and one
// every four weeks since.
func healthyUpdates(created, now time.Time) windowsupdate.Report {
	const day = 24 * time.Hour
	return windowsupdate.Report{
		Read: now, WindowsInstalled: created.Add(-20 * day), Searched: created.Add(now.Sub(created).Truncate(day) - 3*time.Hour),
		Total: 1, Pending: []windowsupdate.Update{{
			ID: "5a1c7c1e-0000-4000-8000-000000000001", Revision: 200, Title: "Security Intelligence Update for Microsoft Defender Antivirus - KB2267602",
			KBs: []string{"KB2267602"}, Class: windowsupdate.Definition, Restart: windowsupdate.RestartNever,
		}},
		History: []windowsupdate.Operation{
			{
				Date: created.Add(now.Sub(created).Truncate(day) - 2*time.Hour), Title: "Security Intelligence Update for Microsoft Defender Antivirus - KB2267602",
				KB: "KB2267602", Class: windowsupdate.Definition, Result: windowsupdate.ResultSucceeded,
			},
			{
				Date: created.Add(now.Sub(created).Truncate(28*day) - 10*day), Title: "Cumulative Update for Microsoft server operating system (KB5068787)",
				KB: "KB5068787", Class: windowsupdate.Security, Result: windowsupdate.ResultSucceeded,
			},
		},
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
