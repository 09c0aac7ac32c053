package nodestatus

import "time"

// A problem is reported once checks have found it for lasts, and ends once they have found none for gone, so that a Node does not flap.
const (
	lasts = 2 * time.Minute
	gone  = 5 * time.Minute
)

// steady combines the results of many checks.
type steady struct {
	// isKnown is true once checks have agreed for long enough; isBad is what they agreed on.
	isKnown, isBad bool
	// saw is the result of the last check, since the time from which checks had it.
	saw   bool
	since time.Time
}

// see records a check, and reports whether the reported result changes.
func (s *steady) see(now time.Time, bad bool) (changed bool) {
	if s.since.IsZero() || s.saw != bad {
		s.saw, s.since = bad, now
	}
	enough := gone
	if bad {
		enough = lasts
	}
	if s.isKnown && s.isBad == bad || now.Sub(s.since) < enough {
		return false
	}
	s.isKnown, s.isBad = true, bad
	return true
}
