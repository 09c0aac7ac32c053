package nodestatus

import (
	"strings"
	"testing"
	"time"
)

// TestLastingProblemIsReported: each character is a check, a minute after the previous one; x finds a problem, a dot none, a dash is inconclusive.
func TestLastingProblemIsReported(t *testing.T) {
	for name, test := range map[string]struct{ checks, reported string }{
		"none":                   {"......", "?????f"},
		"from the beginning":     {"xxxx", "??tt"},
		"a moment":               {"......x.xx.", "?????ffffff"},
		"the problem persists":   {"......xxx", "?????ffft"},
		"the problem ends":       {"xxx......", "??ttttttf"},
		"the problem returns":    {"xxx....x......", "??tttttttttttf"},
		"checks without results": {"x-x-x.", "??tttt"},
		"unknown at first":       {"x....xxx", "???????t"},
	} {
		t.Run(name, func(t *testing.T) {
			var s steady
			var notified strings.Builder
			at := time.Unix(0, 0)
			for _, check := range test.checks {
				before := s
				if check != '-' {
					changed := s.observe(at, check == 'x')
					if ok := s.isKnown != before.isKnown || s.isFailing != before.isFailing; changed != ok {
						t.Errorf("a change is reported: %v, want %v", changed, ok)
					}
				}
				switch {
				case !s.isKnown:
					notified.WriteByte('?')
				case s.isFailing:
					notified.WriteByte('t')
				default:
					notified.WriteByte('f')
				}
				at = at.Add(time.Minute)
			}
			if notified.String() != test.reported {
				t.Errorf("checks %s are reported as %s, want %s", test.checks, notified.String(), test.reported)
			}
		})
	}
}
