package supportbundle

import (
	"strings"
	"testing"
	"time"
)

func TestNamesOfCollections(t *testing.T) {
	for id, ok := range map[string]bool{
		"20261123-170405-ab12cd": true, "a": true, strings.Repeat("a", 40): true,
		"": false, strings.Repeat("a", 41): false, "-a": false, "a-": false, "A": false, "a.b": false, "..": false, `a\b`: false, "a/b": false,
		"a b": false, "ä": false, "con": false, "lpt1": false, "com9": false, "com10": true, "a\x00": false, "a:b": false,
	} {
		if err := CheckID(id); (err == nil) != ok {
			t.Errorf("CheckID(%q) = %v", id, err)
		}
	}
}

func TestStatusSurvivesItsAnnotation(t *testing.T) {
	at := time.Date(2026, 11, 23, 17, 0, 0, 0, time.UTC)
	for _, s := range []Status{
		{ID: "a", State: Collecting, Time: at},
		{ID: "a-1", State: Done, Time: at, Bytes: 12, SHA256: strings.Repeat("0a", 32)},
		{ID: "a", State: Failed, Time: at, Message: "the disk is full"},
	} {
		got, err := ParseStatus(s.Annotation())
		if err != nil || got != s {
			t.Errorf("%+v becomes %+v, %v", s, got, err)
		}
	}
	long := Status{ID: strings.Repeat("a", 40), State: Collecting, Time: at, Bytes: 1 << 60, SHA256: strings.Repeat("f", 64), Message: strings.Repeat("\x01", 5000)}
	if a := long.Annotation(); len(a) > maxStatus {
		t.Errorf("the annotation has %d bytes", len(a))
	}
}

func FuzzStatus(f *testing.F) {
	f.Add(`{"id":"a","state":"Done","time":"2026-11-23T17:00:00Z","bytes":3}`)
	f.Add(`{"id":"../a","state":"Done"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStatus(text)
		if err != nil {
			return
		}
		if CheckID(s.ID) != nil || s.Bytes < 0 || strings.ContainsAny(s.Message, "\n\r\x1b") {
			t.Errorf("%q becomes %+v", text, s)
		}
	})
}
