package terminal_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/windows-machine-config/wmco/internal/cli/terminal"
)

// sanitized returns what a terminal receives for a text that is written in pieces of a size.
func sanitized(t *testing.T, text string, size int) string {
	t.Helper()
	var out bytes.Buffer
	s := terminal.NewSanitizer(&out)
	for p := []byte(text); len(p) > 0; p = p[min(size, len(p)):] {
		if n, err := s.Write(p[:min(size, len(p))]); n != min(size, len(p)) || err != nil {
			t.Fatalf("%d bytes were written: %v", n, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTerminalEscapesAreFiltered(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain\r\n\ttext\n": "plain\r\n\ttext\n", "grün, 日本, 1\u00a0000": "grün, 日本, 1\u00a0000",
		"\x1b[31mred\x1b[0m":               "\x1b[31mred\x1b[0m\x1b[0m",
		"\x1b[38;5;196mred":                "\x1b[38;5;196mred\x1b[0m",
		"\x1b]52;c;cm0gLXJmIH4K\aok":       `\x1b]52;c;cm0gLXJmIH4K\aok`,
		"\x1b]0;owned\x1b\\ok":             `\x1b]0;owned\x1b\ok`,
		"\x1b]8;;http://x\x1b\\link":       `\x1b]8;;http://x\x1b\link`,
		"\x1b[2J\x1b[1;1Hok":               `\x1b[2J\x1b[1;1Hok`,
		"\x1b[6n\x1b[c\x1b[>c":             `\x1b[6n\x1b[c\x1b[>c`, // the terminal would respond
		"\x1b[?1049h\x1b[>4;1m":            `\x1b[?1049h\x1b[>4;1m`,
		"\x1bP+q544e\x1b\\":                `\x1bP+q544e\x1b\`,
		"\x1bc\x1b7\x1b(0":                 `\x1bc\x1b7\x1b(0`,
		"\u009b31mred\u009d0;x\u009c":      `\u009b31mred\u009d0;x\u009c`,
		"\x9b31mred":                       `\x9b31mred`,
		"over\rwritten\b\b\x7f\a\v\f":      `over\rwritten\b\b\x7f\a\v\f`,
		"abc\u202egnp.exe\u2028\u200b":     `abc\u202egnp.exe\u2028\u200b`,
		"\x1b[" + strings.Repeat("1;", 99): `\x1b[` + strings.Repeat("1;", 99),
		"end\x1b":                          `end\x1b`, "end\x1b[3": `end\x1b[3`, "end\r": `end\r`, "end\xe6\x97": `end\xe6\x97`, "bad \xff\xfe": `bad \xff\xfe`, "\ufffd": "\ufffd",
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 10} {
			if got := sanitized(t, text, size); got != want {
				t.Errorf("%q in pieces of %d: got %q, want %q", text, size, got, want)
			}
		}
	}
}

func TestSanitizerReturnsWriteError(t *testing.T) {
	broken := errors.New("broken")
	if _, err := terminal.NewSanitizer(failing{broken}).Write([]byte("x")); !errors.Is(err, broken) {
		t.Errorf("Write() = %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

// FuzzSanitizer checks that only styles reach the terminal, however the text is split.
func FuzzSanitizer(f *testing.F) {
	f.Add("\x1b[31mred\x1b]0;x\a\u009b\x9b日\r\n\r", 1)
	f.Add("\x1b[1;2", 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		got := sanitized(t, text, min(max(size, 1), 100))
		if whole := sanitized(t, text, len(text)+1); got != whole {
			t.Errorf("%q in pieces: got %q, at once: %q", text, got, whole)
		}
		rest := strings.ReplaceAll(regexp.MustCompile(`\x1b\[[0-9;:]*m`).ReplaceAllString(got, ""), "\r\n", "\n")
		if i := strings.IndexFunc(rest, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }); i >= 0 {
			t.Errorf("%q becomes %q, which has %q", text, got, rest[i:])
		}
		if len(got) > 10*len(text)+4 {
			t.Errorf("%d bytes become %d", len(text), len(got))
		}
	})
}
