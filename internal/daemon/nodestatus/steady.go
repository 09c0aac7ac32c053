package nodestatus

import "time"

// A problem is told when looks have shown it for lasts, and is over when they have shown none for gone. So a node does not flap.
const (
	lasts = 2 * time.Minute
	gone  = 5 * time.Minute
)

// steady is what many looks say together.
type steady struct {
	// isKnown is true when looks agreed for long enough, for the first time; isBad is what they agreed on.
	isKnown, isBad bool
	// saw is what the last look has shown, and since when looks show that.
	saw   bool
	since time.Time
}

// see takes notice of a look, and tells whether what is told changes.
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
