package windowsupdate

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Bounds of a report. What the agent has beyond them is left out.
const (
	// MaxBytes limits the JSON of a report, in which each character of a title may be escaped.
	MaxBytes = 1 << 20
	// MaxPending and MaxHistory limit the lists, maxKBs the articles of one update.
	MaxPending, MaxHistory, maxKBs = 200, 100, 8
	// maxTitle limits a title in bytes. Those of Microsoft have up to 150.
	maxTitle = 256
	// maxTotal limits the number of pending updates. No Windows has as many.
	maxTotal = 100_000
	// maxFailures limits the failures, maxCall the name of what failed, in bytes.
	maxFailures, maxCall = 8, 64
	// maxHost limits the name of a server, in bytes (RFC 1035).
	maxHost = 253
	// maxAhead is how far a date may be later than the report: dates of the agent may be in another time zone.
	maxAhead = 48 * time.Hour
)

var (
	guid     = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	article  = regexp.MustCompile(`\bKB[0-9]{6,8}\b`)
	hostName = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z._-]*[0-9A-Za-z])?$|^[0-9A-Fa-f:.]+$`)
)

// Report is the answer of a host's Windows Update Agent. Times are UTC. Zero values mean that Windows does not know, or could not be asked: see
// Failures.
type Report struct {
	// Read is when the agent was asked, by the host's clock.
	Read time.Time `json:"read"`
	// Build and Revision are the third and the fourth number of the version of Windows; 0 if unknown.
	Build    int `json:"build,omitempty"`
	Revision int `json:"revision,omitempty"`
	// WindowsInstalled is when this copy of Windows was installed: for a machine from an image, its first start.
	WindowsInstalled time.Time `json:"windowsInstalled,omitzero"`
	// Searched is when the host's automatic updates last searched successfully (IAutomaticUpdatesResults.LastSearchSuccessDate).
	Searched time.Time `json:"searched,omitzero"`
	// Server is the host name of the WSUS that a policy of the host names; empty if updates come from Microsoft.
	Server string `json:"server,omitempty"`
	// Disabled is true if the service of the agent is disabled: nothing else is known then.
	Disabled bool `json:"disabled,omitempty"`
	// NoSearches is true if a policy of the host turns automatic updates off (NoAutoUpdate), so that Windows does not search on its own.
	NoSearches bool `json:"noSearches,omitempty"`
	// Restart is true if installed updates wait for a restart (ISystemInformation.RebootRequired).
	Restart bool `json:"restart,omitempty"`
	// Total is the number of updates that are not installed and not hidden, as of the agent's last search. Pending are the first MaxPending of them.
	Total   int      `json:"total"`
	Pending []Update `json:"pending,omitempty"`
	// History has the last operations of the agent, of all results.
	History []Operation `json:"history,omitempty"`
	// Failures are what could not be read.
	Failures []Failure `json:"failures,omitempty"`
}

// Update is an update that applies to the host and is not installed (IUpdate5 in wuapi.h).
type Update struct {
	// ID is the update's GUID in lower case, Revision its revision at the server.
	ID       string `json:"id,omitempty"`
	Revision int    `json:"revision,omitempty"`
	Title    string `json:"title"`
	// KBs are the articles, such as KB5068787.
	KBs   []string `json:"kbs,omitempty"`
	Class Class    `json:"class"`
	// Severity is Critical, Important, Moderate or Low; empty if Microsoft rates none.
	Severity string `json:"severity,omitempty"`
	// Published is when this revision of the update was published (IUpdate.LastDeploymentChangeTime); zero if unknown.
	Published time.Time `json:"published,omitzero"`
	// Downloaded is true if the host has its files.
	Downloaded bool `json:"downloaded,omitempty"`
	// Restart is whether its installation needs a restart: Never, Always or Possible; empty if unknown.
	Restart Restart `json:"restart,omitempty"`
	// RestartPending is true if it was installed and takes effect with a restart.
	RestartPending bool `json:"restartPending,omitempty"`
	// Interactive is true if the installation may prompt the user (IInstallationBehavior.CanRequestUserInput).
	Interactive bool `json:"interactive,omitempty"`
	// Deadline is the time by which the administrator of its server wants it installed.
	Deadline time.Time `json:"deadline,omitzero"`
}

// Restart is whether the installation of an update needs a restart (InstallationRebootBehavior in wuapi.h).
type Restart string

// Values of Restart.
const (
	RestartNever    Restart = "Never"
	RestartAlways   Restart = "Always"
	RestartPossible Restart = "Possible"
)

// RestartOf returns the value for a number of InstallationRebootBehavior.
func RestartOf(behavior int64) Restart {
	switch behavior {
	case 0:
		return RestartNever
	case 1:
		return RestartAlways
	case 2:
		return RestartPossible
	}
	return ""
}

// Operation is an entry of the agent's history (IUpdateHistoryEntry2 in wuapi.h).
type Operation struct {
	Date  time.Time `json:"date,omitzero"`
	Title string    `json:"title"`
	// KB is the article in the title; empty if it names none.
	KB    string `json:"kb,omitempty"`
	Class Class  `json:"class"`
	// Uninstall is true if the update was removed.
	Uninstall bool   `json:"uninstall,omitempty"`
	Result    Result `json:"result"`
	// Code is the HRESULT; 0 if all is well.
	Code uint32 `json:"code,omitempty"`
}

// Result is the result of an operation (OperationResultCode in wuapi.h).
type Result string

// Values of Result.
const (
	ResultUnknown    Result = "Unknown"
	ResultInProgress Result = "InProgress"
	ResultSucceeded  Result = "Succeeded"
	// ResultPartial means success with errors: the update is installed.
	ResultPartial Result = "SucceededWithErrors"
	ResultFailed  Result = "Failed"
	ResultAborted Result = "Aborted"
)

// ResultOf returns the value for a number of OperationResultCode.
func ResultOf(code int64) Result {
	all := []Result{ResultUnknown, ResultInProgress, ResultSucceeded, ResultPartial, ResultFailed, ResultAborted}
	if code < 0 || code >= int64(len(all)) {
		return ResultUnknown
	}
	return all[code]
}

// Failure is a part of a report that could not be read.
type Failure struct {
	// Call is what was called, such as IUpdateSearcher.Search.
	Call string `json:"call"`
	// Code is the HRESULT; 0 if there is none.
	Code uint32 `json:"code,omitempty"`
}

// String describes the failure in words.
func (f Failure) String() string {
	if f.Code == 0 {
		return f.Call + " failed"
	}
	return fmt.Sprintf("%s failed with %s", f.Call, Describe(f.Code))
}

// Parse reads the JSON of a report from a process or host that may be damaged or hostile. Unknown fields and further values are errors; all values
// are within the bounds.
func Parse(b []byte) (Report, error) {
	if len(b) > MaxBytes {
		return Report{}, fmt.Errorf("the report about updates has %d bytes; at most %d are allowed", len(b), MaxBytes)
	}
	var r Report
	if err := strictjson.Unmarshal(b, &r); err != nil {
		return Report{}, fmt.Errorf("parsing the report about updates: %w", err)
	}
	if !isDate(r.Read, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)) {
		return Report{}, errors.New("parsing the report about updates: field read is no date between 1993 and 2100")
	}
	return r.Bounded(), nil
}

// Bounded returns the report within its bounds and in one form: long lists and titles are cut, and values that cannot be are removed. It is
// idempotent.
func (r Report) Bounded() Report {
	latest := r.Read.Add(maxAhead)
	r.Read, r.Build, r.Revision = r.Read.UTC(), max(r.Build, 0), max(r.Revision, 0)
	if !r.Searched.Before(latest) && !r.Failed(CallSearched) { // not the same as a host that never searched
		r.Failures = append([]Failure{{Call: CallSearched}}, r.Failures...)
	}
	r.WindowsInstalled, r.Searched = date(r.WindowsInstalled, latest), date(r.Searched, latest)
	if r.Server != "" && !isHost(r.Server) {
		r.Server = invalidHost
	}
	r.Pending = slices.Clone(r.Pending[:min(len(r.Pending), MaxPending)])
	for i, u := range r.Pending {
		r.Pending[i] = u.bounded(latest)
	}
	r.Total = min(max(r.Total, len(r.Pending)), maxTotal)
	r.History = slices.Clone(r.History[:min(len(r.History), MaxHistory)])
	for i, o := range r.History {
		r.History[i] = o.bounded(latest)
	}
	r.Failures = slices.Clone(r.Failures[:min(len(r.Failures), maxFailures)])
	for i, f := range r.Failures {
		r.Failures[i].Call = line(f.Call, maxCall)
	}
	return r
}

// HasArticle reports whether one of the update's articles is among these.
func (u Update) HasArticle(kbs []string) bool {
	return slices.ContainsFunc(u.KBs, func(kb string) bool { return slices.Contains(kbs, kb) })
}

func (u Update) bounded(latest time.Time) Update {
	u.ID = strings.ToLower(u.ID)
	if !IsID(u.ID) {
		u.ID = ""
	}
	u.Revision = max(u.Revision, 0)
	u.Title, u.Class = line(u.Title, maxTitle), u.Class.known()
	u.KBs = slices.DeleteFunc(slices.Clone(u.KBs), func(kb string) bool { return kb == "" || KBOf(kb) != kb })
	u.KBs = u.KBs[:min(len(u.KBs), maxKBs)]
	if !slices.Contains([]string{"Critical", "Important", "Moderate", "Low"}, u.Severity) {
		u.Severity = ""
	}
	if !slices.Contains([]Restart{RestartNever, RestartAlways, RestartPossible}, u.Restart) {
		u.Restart = ""
	}
	u.Published, u.Deadline = date(u.Published, latest), date(u.Deadline, latest.AddDate(10, 0, 0))
	return u
}

func (o Operation) bounded(latest time.Time) Operation {
	o.Date, o.Title, o.Class = date(o.Date, latest), line(o.Title, maxTitle), o.Class.known()
	if KBOf(o.KB) != o.KB {
		o.KB = ""
	}
	o.Result = o.Result.known()
	return o
}

// KBOf returns the first article in a text, such as KB5068787 in "2025-11 Cumulative Update (KB5068787)"; empty if there is none. Titles are in the
// language of Windows, articles are not.
func KBOf(text string) string {
	return article.FindString(text)
}

// ArticleOf returns the article with a number of IUpdate.KBArticleIDs, which has no prefix; empty if it is none.
func ArticleOf(number string) string { return KBOf("KB" + strings.TrimPrefix(number, "KB")) }

// date returns a plausible date in UTC, or zero.
func date(t, latest time.Time) time.Time {
	if !isDate(t, latest) {
		return time.Time{}
	}
	return t.UTC()
}

// isDate reports whether a date is plausible. The agent returns 1601 or 1899 where it has none; there is no Windows Server from before 1993.
func isDate(t, latest time.Time) bool {
	return t.Year() >= 1993 && t.Before(latest)
}

// line returns a text in one line that is safe to print.
func line(text string, limit int) string {
	return truncate.Printable(strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), 8*limit)], "")), " "), limit)
}

func isHost(name string) bool {
	return len(name) <= maxHost && hostName.MatchString(name)
}

// HostOf returns the host name in the URL of a server, without port, user and path; "invalid" if it has none, and empty for an empty text.
func HostOf(address string) string {
	address = strings.TrimSpace(address)
	if address == "" {
		return ""
	}
	if u, err := url.Parse(address); err == nil && isHost(u.Hostname()) {
		return u.Hostname()
	}
	return invalidHost
}

const invalidHost = "invalid"
