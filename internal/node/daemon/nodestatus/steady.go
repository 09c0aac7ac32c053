package nodestatus

import "time"

// A problem is reported once checks have found it for reportAfter, and ends once they have found none for clearAfter, so that a Node does
// not flap.
const (
	reportAfter = 2 * time.Minute
	clearAfter  = 5 * time.Minute
)

// steady combines the results of many checks.
type steady struct {
	// isKnown is true once checks have agreed for long enough; isFailing is what they agreed on.
	isKnown, isFailing bool
	// last is the result of the last check, since the time of the first check in a row with this result.
	last  bool
	since time.Time
}

// observe records a check, and reports whether the reported result changes.
func (s *steady) observe(now time.Time, bad bool) (changed bool) {
	if s.since.IsZero() || s.last != bad {
		s.last, s.since = bad, now
	}
	required := clearAfter
	if bad {
		required = reportAfter
	}
	if s.isKnown && s.isFailing == bad || now.Sub(s.since) < required {
		return false
	}
	s.isKnown, s.isFailing = true, bad
	return true
}
