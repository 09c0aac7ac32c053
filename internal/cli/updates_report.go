package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// explainReport explains why a node has no report.
func explainReport(err error, node string) error {
	if errors.Is(err, nodefiles.ErrAbsent) {
		return session.Failf(session.CodeNotFound, "node %s has reported no updates: WICD queries Windows within a few minutes after it starts, and again "+
			"after failures; with spec.windowsUpdates.policy: Unmanaged in WindowsConfig, it does not", node)
	}
	return err
}

// printReport prints a report, and which of its updates the nodes do not install by spec.
func printReport(p *terminal.Printer, now time.Time, node string, r windowsupdate.Report, spec v1alpha1.WindowsUpdatesSpec) {
	p.Field("Node", node)
	p.Field("Asked", ago(now, r.Read))
	p.Field("Searched", ago(now, r.Searched))
	p.Field("Source", r.Source())
	if newest, found := r.Newest(); found {
		p.Field("Newest", strings.TrimSpace(newest.KB+" "+ago(now, newest.Date)))
	}
	if _, message := r.Overdue(now, desired.UpdateGoal(spec)); message != "" {
		p.Field("Overdue", p.Styled(terminal.Warn, message))
	}
	if blocked := r.Summary(nil).Blocked; blocked != "" {
		p.Field("Blocked by", p.Styled(terminal.Warn, blocked))
	}
	if _, isKnown := r.Counts(); isKnown {
		p.Line("")
		p.Heading(fmt.Sprintf("Pending (%d)", r.Total))
		if len(r.Pending) > 0 {
			p.Table([]terminal.Column{{Name: "KB", Weight: 8}, {Name: "CLASS", Weight: 7}, {Name: "SEVERITY", Weight: 4}, {Name: "RESTART", Weight: 5},
				{Name: "STATE", Weight: 6}, {Name: "DEADLINE", Weight: 3}, {Name: "TITLE", Weight: 9}}, pendingRows(r.Pending))
		}
	}
	if rows := heldBack(r.Pending, spec); len(rows) > 0 {
		p.Line("")
		p.Heading(fmt.Sprintf("Not installed by the operator (%d)", len(rows)))
		p.Table([]terminal.Column{{Name: "KB", Weight: 8}, {Name: "WHY", Weight: 9}}, rows)
	}
	if len(r.History) > 0 {
		p.Line("")
		p.Heading("History")
		p.Table([]terminal.Column{{Name: "DATE", Weight: 8}, {Name: "KB", Weight: 7}, {Name: "CLASS", Weight: 4}, {Name: "RESULT", Weight: 9},
			{Name: "TITLE", Weight: 6}}, historyRows(r.History))
	}
}

// heldBack lists the pending updates that are excluded, with the reasons. With a policy other than Install, that is not worth saying.
func heldBack(pending []windowsupdate.Update, spec v1alpha1.WindowsUpdatesSpec) (rows [][]string) {
	selection := desired.UpdatesToInstall(spec)
	if selection == nil {
		return nil
	}
	for _, u := range pending {
		why := selection.Excludes(u)
		if why == "" {
			continue
		}
		for _, kb := range u.KBs {
			if defect, known := windowsbuild.DefectOf(kb); known && !slices.Contains(spec.Blocked, kb) && !slices.Contains(spec.AcceptDefects, kb) {
				why = fmt.Sprintf("known defect: %s (%s); spec.windowsUpdates.acceptDefects overrides this", defect.What, defect.Source)
			}
		}
		rows = append(rows, []string{strings.Join(u.KBs, ","), why})
	}
	return rows
}

func pendingRows(all []windowsupdate.Update) (rows [][]string) {
	for _, u := range all {
		state := "not downloaded"
		switch {
		case u.RestartPending:
			state = "waits for a restart"
		case u.Downloaded:
			state = "downloaded"
		}
		rows = append(rows, []string{strings.Join(u.KBs, ","), string(u.Class), u.Severity, string(u.Restart), state, day(u.Deadline), u.Title})
	}
	return rows
}

func historyRows(all []windowsupdate.Operation) (rows [][]string) {
	for _, o := range all {
		result := string(o.Result)
		if o.Uninstall {
			result = "Uninstall: " + result
		}
		if o.Code != 0 {
			result += " " + windowsupdate.Describe(o.Code)
		}
		rows = append(rows, []string{day(o.Date), o.KB, string(o.Class), result, o.Title})
	}
	return rows
}

// day formats a date; empty if it is zero.
func day(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.DateOnly)
}
