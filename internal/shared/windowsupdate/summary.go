package windowsupdate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// MaxSummary limits a summary in bytes; the admission policy of WICD has the same limit.
const MaxSummary = 1024

// maxBlocked limits the text of what blocks updates, in bytes. It is not cut below minBlocked.
const maxBlocked, minBlocked = 400, 20

// Summary is the part of a report that the Node has in its annotation windows-updates. It changes only with what the agent knows.
type Summary struct {
	// Source is "Microsoft", or "WSUS" with the server's host name; empty if it is not known.
	Source string `json:"source,omitempty"`
	// Searched is the last successful search, Newest when the newest update that changes Windows was installed, and KB its article.
	Searched time.Time `json:"searched,omitzero"`
	Newest   time.Time `json:"newest,omitzero"`
	KB       string    `json:"kb,omitempty"`
	// Total is the number of pending updates, Pending those of each class that the report lists; both are absent if the agent did not answer.
	Total   *int          `json:"total,omitempty"`
	Pending map[Class]int `json:"pending,omitempty"`
	// Offers are the updates that can be installed now: of the classes that WindowsConfig selects, downloaded, and not blocked. The first MaxOffers by
	// publication.
	Offers []Offer `json:"offers,omitempty"`
	// Installation is the state of the last installation that the operator requested; nil if there was none.
	Installation *Installation `json:"installation,omitempty"`
	// Blocked is what keeps updates from being found or installed, in words; empty if nothing is known.
	Blocked string `json:"blocked,omitempty"`
}

// Summary returns the summary of a report. failure is why a later attempt to get one failed; nil if none did.
func (r Report) Summary(failure error) Summary {
	s := Summary{Searched: r.Searched}
	if !r.Read.IsZero() {
		s.Source = r.Source()
	}
	if newest, found := r.Newest(); found {
		s.Newest, s.KB = newest.Date, newest.KB
	}
	if counts, isKnown := r.Counts(); isKnown {
		s.Total, s.Pending = &r.Total, counts
	}
	s.Blocked = truncate.Text(strings.Join(r.blocked(failure), "; "), maxBlocked)
	return s
}

func (r Report) blocked(failure error) (causes []string) {
	if failure != nil {
		causes = append(causes, line(failure.Error(), maxBlocked))
	}
	if r.Disabled {
		causes = append(causes, "service wuauserv is disabled")
	}
	if r.NoSearches {
		causes = append(causes, "a policy turns automatic updates off (NoAutoUpdate)")
	}
	if r.Restart {
		causes = append(causes, "installed updates wait for a restart")
	}
	for _, f := range r.Failures {
		causes = append(causes, f.String())
	}
	return causes
}

// Format returns the value of the annotation, of at most MaxSummary bytes: what blocks updates is cut, because JSON escapes some characters, and then
// the last offers, which follow when the others are installed.
func (s Summary) Format() string {
	b, err := json.Marshal(s)
	for limit := maxBlocked / 2; err == nil && len(b) > MaxSummary && limit > minBlocked; limit /= 2 {
		s.Blocked = truncate.Text(s.Blocked, limit)
		b, err = json.Marshal(s)
	}
	for err == nil && len(b) > MaxSummary && len(s.Offers) > 0 {
		s.Offers = s.Offers[:len(s.Offers)-1]
		b, err = json.Marshal(s)
	}
	if err != nil { // a summary can always be encoded
		return ""
	}
	return string(b)
}

// ParseSummary reads the annotation of a Node, which its host writes.
func ParseSummary(text string) (Summary, error) {
	if len(text) > MaxSummary {
		return Summary{}, fmt.Errorf("the summary has %d bytes; at most %d are allowed", len(text), MaxSummary)
	}
	var s Summary
	if err := strictjson.Unmarshal([]byte(text), &s); err != nil {
		return Summary{}, err
	}
	return s.bounded(), nil
}

func (s Summary) bounded() Summary {
	latest := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	s.Source, s.Blocked = line(s.Source, maxHost+len("WSUS ")), line(s.Blocked, maxBlocked)
	s.Searched, s.Newest = date(s.Searched, latest), date(s.Newest, latest)
	if KBOf(s.KB) != s.KB {
		s.KB = ""
	}
	pending := map[Class]int{}
	for _, class := range Classes() {
		if n := s.Pending[class]; n > 0 {
			pending[class] = min(n, MaxPending)
		}
	}
	s.Pending = pending
	s.Offers = slices.DeleteFunc(slices.Clone(s.Offers[:min(len(s.Offers), MaxOffers)]), func(o Offer) bool { return o.KB == "" || KBOf(o.KB) != o.KB })
	for i, o := range s.Offers {
		s.Offers[i].Published = date(o.Published, latest)
	}
	if s.Installation != nil {
		bounded := s.Installation.Bounded()
		s.Installation = &bounded
	}
	if s.Total != nil {
		total := min(max(*s.Total, 0), maxTotal)
		s.Total = &total
	}
	return s
}
