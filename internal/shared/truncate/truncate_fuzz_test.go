package truncate_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// FuzzText expects a short, valid text that begins as the original.
func FuzzText(f *testing.F) {
	f.Add(strings.Repeat("ä", 2047)+"b", 1, 4096)
	f.Add("a\xff\xfeb", 3000, 1000)
	f.Add("ÄÖÜ", 1, 3)
	f.Fuzz(func(t *testing.T, text string, times, limit int) {
		limit = min(max(limit, len("...")), 4096)
		text = strings.Repeat(text, min(max(times, 1), 5000/(len(text)+1)+1))
		kept := truncate.Text(text, limit)
		if len(kept) > limit || !utf8.ValidString(kept) {
			t.Errorf("%d bytes are kept (valid %t)", len(kept), utf8.ValidString(kept))
		}
		if truncate.Text(kept, limit) != kept {
			t.Error("the kept text is cut again")
		}
		if utf8.ValidString(text) && (len(text) <= limit && kept != text || !strings.HasPrefix(text, strings.TrimSuffix(kept, "..."))) {
			t.Errorf("%.50q became %.50q", text, kept)
		}
	})
}

// FuzzMiddle expects a short, valid text with the original beginning and end.
func FuzzMiddle(f *testing.F) {
	f.Add(strings.Repeat("ä", 2047)+"b", 4096)
	f.Add("a\xff\xfeb", 4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = min(max(limit, len("...")), 4096)
		kept := truncate.Middle(text, limit)
		if len(kept) > limit || !utf8.ValidString(kept) {
			t.Errorf("%d bytes are kept (valid %t)", len(kept), utf8.ValidString(kept))
		}
		begin, end, isCut := strings.Cut(kept, "...")
		if utf8.ValidString(text) && (len(text) <= limit && kept != text || isCut && (!strings.HasPrefix(text, begin) || !strings.HasSuffix(text, end))) {
			t.Errorf("%.50q became %.50q", text, kept)
		}
	})
}
