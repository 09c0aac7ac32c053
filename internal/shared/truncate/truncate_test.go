package truncate_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

func TestTextsAreTruncatedBetweenCharacters(t *testing.T) {
	for text, want := range map[string]string{"": "", "short": "short", "just eight": "just ...", "öööööö": "öö...", "a\xffb": "ab"} {
		if got := truncate.Text(text, 8); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestMiddleKeepsBeginningAndEnd(t *testing.T) {
	for text, want := range map[string]string{"": "", "short": "short", "ten  chars": "te...hars", "öööööö": "ö...öö", "pulling x: refused": "pu...used"} {
		if got := truncate.Middle(text, 9); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestLongListsCountOmittedItems(t *testing.T) {
	for list, want := range map[string]string{"": "", "a": "a", "a b": "a, b", "a b c": "a, b and 1 more", "a b c d": "a, b and 2 more"} {
		if got := truncate.List(strings.Fields(list), 2, ", "); got != want {
			t.Errorf("%q becomes %q, want %q", list, got, want)
		}
	}
}

func TestForeignTextIsSafeToPrint(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"two\nlines\r\nand\ttab":   "two\nlines\nand tab",
		"\x1b[2J\x1b]0;title\a":    `\x1b[2J\x1b]0;title\a`,
		"\u009b31m red":            `\u009b31m red`,
		"abc\u202egnp.exe":         `abc\u202egnp.exe`,
		"over\rwritten":            `over\rwritten`,
		"grün, 日本":                 "grün, 日本",
		"bad \xff\xfe":             "bad ",
		strings.Repeat("\x1b", 99): strings.Repeat(`\x1b`, 11) + `\...`,
	} {
		if got := truncate.Printable(text, 48); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
