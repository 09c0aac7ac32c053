package apiclient

import (
	"net/http"
	"testing"
	"time"
)

func TestAPIServerClockIsReadFromResponses(t *testing.T) {
	sent := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	header := func(ahead time.Duration) string { return sent.Add(ahead).Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		takes time.Duration
		date  string
		want  time.Duration // within a second plus half of takes
		none  bool
	}{
		"the same":          {takes: 100 * time.Millisecond, date: header(0)},
		"ahead":             {takes: 100 * time.Millisecond, date: header(3 * time.Minute), want: 3 * time.Minute},
		"behind":            {takes: 4 * time.Second, date: header(-time.Hour), want: -time.Hour},
		"a slow answer":     {takes: 6 * time.Second, date: header(time.Hour), none: true},
		"no date":           {none: true},
		"not a date":        {date: "yesterday", none: true},
		"years ahead":       {date: header(100_000 * time.Hour), want: 100_000 * time.Hour},
		"beyond a duration": {date: "Fri, 31 Dec 9999 23:59:59 GMT", want: 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			var c Clock
			c.compare(sent, sent.Add(test.takes), test.date)
			ahead, isNew := c.Ahead()
			if isNew == test.none {
				t.Fatalf("compared: %v", isNew)
			}
			if off := (ahead - test.want).Abs(); !test.none && off > time.Second+test.takes/2 {
				t.Errorf("ahead by %v, want %v", ahead, test.want)
			}
			if _, again := c.Ahead(); again {
				t.Error("a comparison was returned twice")
			}
		})
	}
}
