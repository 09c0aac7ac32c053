package api_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/windows-machine-config/wmco/api"
)

// FuzzClip: a text that is kept is short and valid, and says what it said.
func FuzzClip(f *testing.F) {
	f.Add(strings.Repeat("ä", 2047)+"b", 1)
	f.Add("a\xff\xfeb", 3000)
	f.Fuzz(func(t *testing.T, text string, times int) {
		text = strings.Repeat(text, min(max(times, 1), 5000/(len(text)+1)+1))
		kept := api.Clip(text)
		if len(kept) > 4096 || !utf8.ValidString(kept) {
			t.Errorf("%d bytes are kept (valid %t)", len(kept), utf8.ValidString(kept))
		}
		if api.Clip(kept) != kept {
			t.Error("what is kept is cut again")
		}
		if utf8.ValidString(text) && (len(text) <= 4096 && kept != text || !strings.HasPrefix(text, strings.TrimSuffix(kept, "..."))) {
			t.Errorf("%.50q became %.50q", text, kept)
		}
	})
}
