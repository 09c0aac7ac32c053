package overlaystatus_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/overlaystatus"
)

func TestStatusRoundTrips(t *testing.T) {
	for name, s := range map[string]overlaystatus.Status{
		"works": {Problems: []overlaystatus.Problem{}},
		"two problems": {Problems: []overlaystatus.Problem{
			{Reason: "OverlaySubnetMissing", Message: `it says "no", <and> & \ ä`}, {Reason: "OverlayNeighborRefused", Message: ""},
		}},
	} {
		got, err := overlaystatus.Decode(overlaystatus.Encode(s))
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestStatusIsWrittenWithinLimits(t *testing.T) {
	long := overlaystatus.Status{Problems: []overlaystatus.Problem{{Reason: "", Message: "no reason"}, {Reason: "no reason"}, {Reason: strings.Repeat("A", 65)}}}
	for i := range 20 {
		long.Problems = append(long.Problems, overlaystatus.Problem{Reason: fmt.Sprintf("Overlay%d", i), Message: strings.Repeat("\"\\\x1b\n\u202e\xff", 1000)})
	}
	got, err := overlaystatus.Decode(overlaystatus.Encode(long))
	if err != nil || len(got.Problems) != 16 || got.Problems[0].Reason != "Overlay0" || !strings.HasPrefix(got.Problems[0].Message, `"\\x1b \u202e`) {
		t.Errorf("%v, %d problems, first %.80q", err, len(got.Problems), got.Problems)
	}
}

func TestInvalidStatusIsRejected(t *testing.T) {
	for name, text := range map[string]string{
		"empty":            "",
		"null":             "null",
		"no list":          "{}",
		"cut":              `{"problems":[{"reason":"A","mess`,
		"followed by more": `{"problems":[]}{"problems":[]}`,
		"followed by }":    `{"problems":[]}}`,
		"unknown field":    `{"problems":[],"more":1}`,
		"no reason":        `{"problems":[{"message":"a"}]}`,
		"odd reason":       `{"problems":[{"reason":"A b"}]}`,
		"long reason":      `{"problems":[{"reason":"` + strings.Repeat("A", 65) + `"}]}`,
		"line break":       `{"problems":[{"reason":"A","message":"a\nb"}]}`,
		"reversed text":    `{"problems":[{"reason":"A","message":"a\u202eb"}]}`,
		"long message":     `{"problems":[{"reason":"A","message":"` + strings.Repeat("a", 1025) + `"}]}`,
		"many problems":    `{"problems":[` + strings.Repeat(`{"reason":"A"},`, 16) + `{"reason":"A"}]}`,
		"large":            `{"problems":[]` + strings.Repeat(" ", 64<<10) + `}`,
	} {
		if got, err := overlaystatus.Decode([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

// FuzzStatus checks that any status can be written and read, and that what is read is within the limits.
func FuzzStatus(f *testing.F) {
	f.Add([]byte(`{"problems":[{"reason":"OverlaySubnetMissing","message":"none"}]}`), "Overlay", "a\x00b")
	f.Add([]byte(`{"problems":null}`), "", strings.Repeat("\u2028<", 2000))
	f.Fuzz(func(t *testing.T, file []byte, reason, message string) {
		written := overlaystatus.Encode(overlaystatus.Status{Problems: []overlaystatus.Problem{{Reason: reason, Message: message}}})
		if _, err := overlaystatus.Decode(written); err != nil {
			t.Errorf("%q is written as %q: %v", message, written, err)
		}
		got, err := overlaystatus.Decode(file)
		if err != nil {
			return
		}
		if again, err := overlaystatus.Decode(overlaystatus.Encode(got)); err != nil || !reflect.DeepEqual(again, got) || len(got.Problems) > 16 {
			t.Errorf("%q is read as %+v, then %+v (%v)", file, got, again, err)
		}
	})
}
