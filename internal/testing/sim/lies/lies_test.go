package lies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/sim/lies"
)

// answer has a field that true answers omit, in a part that they omit.
type answer struct {
	Name  string `json:"name"`
	Parts []part `json:"parts,omitempty"`
}

type part struct {
	Rare string `json:"rare,omitempty"`
}

const truth = `{"name":"win-1","list":[1,2,3],"up":true}`

func TestSeedDeterminesLies(t *testing.T) {
	sequence := func() (all string) {
		l := lies.New(7, &answer{})
		for range 200 {
			all += fmt.Sprintf("%q", l.Line([]byte(truth)))
		}
		return all
	}
	if first, second := sequence(), sequence(); first != second {
		t.Error("the same seed has two sequences of lies")
	}
}

// TestEveryFieldIsFalsified, although no test lists the fields.
func TestEveryFieldIsFalsified(t *testing.T) {
	l := lies.New(1, &answer{})
	l.Words = []string{"win-2"}
	changed := map[string]bool{}
	for range 2000 {
		var got map[string]any
		if json.Unmarshal(l.JSON([]byte(truth)), &got) != nil {
			continue
		}
		for name, want := range map[string]string{"name": "win-1", "list": "[1 2 3]", "up": "true", "rare": "<nil>", "parts": "<nil>"} {
			if fmt.Sprint(got[name]) != want {
				changed[name] = true
			}
		}
		if got["name"] == "win-2" {
			changed["name of another"] = true
		}
	}
	for _, name := range []string{"name", "list", "up", "rare", "parts", "name of another"} {
		if !changed[name] {
			t.Errorf("in 2000 answers, %s is never falsified", name)
		}
	}
}

func TestUnreadableObjectsAreReported(t *testing.T) {
	l := lies.New(2, &answer{})
	decoded, failed := 0, 0
	for range 200 {
		var got answer
		if l.Object(answer{Name: "win-1"}, &got) {
			decoded++
		} else {
			failed++
		}
	}
	if decoded == 0 || failed == 0 {
		t.Errorf("%d readable, %d unreadable; want some of both", decoded, failed)
	}
}

func TestLinesAreUnchangedWithoutLies(t *testing.T) {
	var out bytes.Buffer
	w := lies.New(3).Writer(&out, 0)
	for _, piece := range []string{"on", "e\ntw", "o\nthree"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if err := w.Close(); err != nil || out.String() != "one\ntwo\nthree\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	out.Reset()
	w = lies.New(3).Writer(&out, 1)
	_, _ = w.Write([]byte(strings.Repeat(truth+"\n", 20)))
	if strings.Count(out.String(), truth) > 15 {
		t.Errorf("too few lines are lies: %s", out.String())
	}
}
