package windowsupdate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
)

const (
	// MaxAge is the age of the newest installed update from which a host is overdue. Microsoft publishes Windows updates every month; the rest is
	// for rings and maintenance windows.
	MaxAge = 45 * day
	// MaxSearchAge is the age of the last successful search at which the list of pending updates no longer means anything.
	MaxSearchAge = 14 * day
	day          = 24 * time.Hour
)

// Newest returns the newest installed update that changes Windows: neither definitions nor the Malicious Software Removal Tool count. found is
// false if the history has none, for example because it was deleted.
func (r Report) Newest() (newest Operation, found bool) {
	for _, o := range r.History {
		installed := !o.Uninstall && (o.Result == ResultSucceeded || o.Result == ResultPartial)
		if installed && o.Class != Definition && !isTool(o.KB) && o.Date.After(newest.Date) {
			newest, found = o, true
		}
	}
	return newest, found
}

// Counts returns the number of updates in Pending by class. isKnown is false if the agent did not answer.
func (r Report) Counts() (counts map[Class]int, isKnown bool) {
	if r.Read.IsZero() || r.Disabled || r.Failed(CallPending) {
		return nil, false
	}
	counts = map[Class]int{}
	for _, u := range r.Pending {
		counts[u.Class]++
	}
	return counts, true
}

// Goal is what hosts should have. The zero value requires nothing beyond the limits that apply to every host.
type Goal struct {
	// Revisions are the lowest revisions of Windows, by build number.
	Revisions map[string]int `json:"revisions,omitempty"`
	// Days is the number of days after its publication within which an update that Of selects should be installed; 0 for no limit.
	Days int       `json:"days,omitempty"`
	Of   Selection `json:"of,omitzero"`
}

// Overdue returns why the host is overdue, as a reason and message of condition WindowsUpdatesOverdue; empty if it is not. What could not be read
// is no reason.
func (r Report) Overdue(now time.Time, goal Goal) (reason, message string) {
	if lowest := goal.Revisions[strconv.Itoa(r.Build)]; 0 < r.Revision && r.Revision < lowest {
		return api.ReasonRevisionTooLow, fmt.Sprintf("Windows has revision %d of build %d; spec.windowsUpdates.minimumRevisions of WindowsConfig requires %d: "+
			"install a cumulative update with it, and see kubectl windows updates", r.Revision, r.Build, lowest)
	}
	if r.Disabled {
		return api.ReasonUpdateServiceDisabled, "service wuauserv of Windows Update is disabled: Windows neither searches for updates nor reports which ones are missing; " +
			"enable it, or set spec.windowsUpdates.policy of WindowsConfig to Unmanaged if hosts get updates in another way"
	}
	if late, found := r.late(now, goal); found {
		return api.ReasonUpdateDeadlinePassed, fmt.Sprintf("%s was published %s ago and is not installed; spec.windowsUpdates.deadlineDays of WindowsConfig allows %d days: "+
			"see kubectl windows updates for what it waits for", strings.Join(late.KBs, ", "), days(now.Sub(late.Published)), goal.Days)
	}
	if r.isOverdue(now) {
		return api.ReasonUpdatesOverdue, r.newestText(now) + "; " + r.pendingText() + "; install updates, and see kubectl windows updates"
	}
	if !r.isSearchOverdue(now) {
		return "", ""
	}
	last := "has never searched for updates successfully"
	if !r.Searched.IsZero() {
		last = fmt.Sprintf("last searched for updates successfully %s ago", days(now.Sub(r.Searched)))
	}
	cause := ""
	if r.NoSearches {
		cause = ", because a policy of the host turns automatic updates off (NoAutoUpdate)"
	}
	return api.ReasonUpdateSearchOverdue, fmt.Sprintf("Windows %s%s: it is unknown which updates are missing; have the host search for updates from %s", last, cause, r.Source())
}

// late returns the pending update that has passed its deadline for the longest time. One that waits for a restart counts.
func (r Report) late(now time.Time, goal Goal) (late Update, found bool) {
	for _, u := range r.Pending {
		passed := goal.Days > 0 && isOlder(u.Published, now, time.Duration(goal.Days)*day) && goal.Of.Excludes(u) == ""
		if passed && (!found || u.Published.Before(late.Published)) {
			late, found = u, true
		}
	}
	return late, found
}

// IsConclusive reports whether all was read that Overdue needs: only then does no reason mean that the host is not overdue.
func (r Report) IsConclusive(goal Goal) bool {
	hasPending := goal.Days == 0 || !r.Failed(CallPending)
	return !r.Read.IsZero() && (r.Disabled || r.hasHistory() && !r.Failed(CallSearched) && hasPending)
}

func (r Report) isOverdue(now time.Time) bool {
	newest, found := r.Newest()
	if !found { // the history may have been deleted, or could not be read
		return r.hasHistory() && isOlder(r.WindowsInstalled, now, MaxAge)
	}
	return isOlder(newest.Date, now, MaxAge)
}

func (r Report) isSearchOverdue(now time.Time) bool {
	if r.Searched.IsZero() {
		return !r.Failed(CallSearched) && isOlder(r.WindowsInstalled, now, MaxSearchAge)
	}
	return isOlder(r.Searched, now, MaxSearchAge)
}

// hasHistory reports whether the history was read, even if it is empty.
func (r Report) hasHistory() bool { return !r.Failed(CallHistory) }

func (r Report) Failed(call string) bool {
	for _, f := range r.Failures {
		if f.Call == call {
			return true
		}
	}
	return false
}

// Calls whose failure leaves a part of a report unknown.
const (
	CallPending  = "IUpdateSearcher.Search"
	CallHistory  = "IUpdateSearcher.QueryHistory"
	CallSearched = "IAutomaticUpdates2.Results"
	CallRestart  = "ISystemInformation.RebootRequired"
	CallOnline   = "IUpdateSearcher.Search (online)"
	CallDownload = "IUpdateDownloader.Download"
	CallPolicy   = "the policy of Windows Update in the registry"
)

func isOlder(t, now time.Time, age time.Duration) bool { return !t.IsZero() && now.Sub(t) >= age }

func (r Report) newestText(now time.Time) string {
	newest, found := r.Newest()
	if !found {
		return fmt.Sprintf("the history of Windows Update has no installed update, and this Windows was installed %s ago", days(now.Sub(r.WindowsInstalled)))
	}
	name := newest.KB
	if name == "" {
		name = fmt.Sprintf("%.64q", newest.Title)
	}
	return fmt.Sprintf("the newest installed update, %s, was installed %s ago", name, days(now.Sub(newest.Date)))
}

func (r Report) pendingText() string {
	if r.Failed(CallPending) {
		return "the list of missing updates could not be read"
	}
	return fmt.Sprintf("%d updates are pending", r.Total)
}

// Source returns a human-readable description of where the host gets its updates.
func (r Report) Source() string {
	if r.Server != "" {
		return "WSUS " + r.Server
	}
	return "Microsoft"
}

func days(d time.Duration) string { return fmt.Sprintf("%d days", int64(d/day)) }
