package terminal_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/windows-machine-config/wmco/internal/cli/terminal"
)

func columns() []terminal.Column {
	return []terminal.Column{
		{Name: "NAME", Weight: 9}, {Name: "ADDRESS", Weight: 1}, {Name: "STATE", Weight: 8, Style: func(string) terminal.Style { return terminal.Bad }}, {Name: "MESSAGE", Weight: 5},
	}
}

// TestOutputFitsTerminal prints a table, a field and a text at each width.
func TestOutputFitsTerminal(t *testing.T) {
	for width := 20; width <= 200; width++ {
		for _, color := range []bool{false, true} {
			var b strings.Builder
			p := terminal.Fixed(&b, width, color)
			p.Table(columns(), [][]string{{"win-1", "10.1.42.1", "Failed", "a long message\nwith two lines " + strings.Repeat("x", 100)}, {"日本", "10.1.42.2", "Ready", ""}})
			p.Field("Operator", "some words "+strings.Repeat("y", 250))
			p.Text(4, terminal.Faint, "see https://example.com/"+strings.Repeat("z", 120))
			for line := range strings.Lines(b.String()) {
				if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
					t.Fatalf("at width %d a line has %d columns: %q", width, w, line)
				}
			}
			if !strings.Contains(b.String(), "win-1") || color != strings.Contains(b.String(), "\x1b[") {
				t.Fatalf("at width %d: %q", width, b.String())
			}
		}
	}
}

// TestWrappedTextFitsTerminal wraps words that contain characters at which lines can be broken.
func TestWrappedTextFitsTerminal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "-", "/", ":", " ", "win", "→", "日", "kubectl", ".", "https://github.com/x-y/", "windowsinstances.windowsmachineconfig", "\u00a0", "é"}
	for range 20000 {
		width := 20 + r.IntN(30)
		var text, out strings.Builder
		for range r.IntN(40) {
			text.WriteString(parts[r.IntN(len(parts))])
		}
		p := terminal.Fixed(&out, width, false)
		p.Text(r.IntN(7), terminal.Plain, text.String())
		p.Field("Operator", text.String())
		for line := range strings.Lines(out.String()) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Fatalf("at width %d, %q becomes a line of %d columns: %q", width, text.String(), w, line)
			}
		}
	}
}

// TestASCIILocaleGetsASCII expects ASCII in such locales and unchanged output in others.
func TestASCIILocaleGetsASCII(t *testing.T) {
	for locale, want := range map[string]string{"C": "x a -> b ... ?\nNAME\n??\n", "POSIX": "x a -> b ... ?\nNAME\n??\n", "de_DE.UTF-8": "✗ a → b … é\nNAME\n日本\n", "C.utf8": "✗ a → b … é\nNAME\n日本\n", "": "✗ a → b … é\nNAME\n日本\n"} {
		t.Setenv("LC_ALL", locale)
		t.Setenv("LC_CTYPE", "")
		t.Setenv("LANG", "")
		var b strings.Builder
		p := terminal.New(&b)
		p.Text(0, terminal.Plain, "✗ a → b … é")
		p.Table([]terminal.Column{{Name: "NAME"}}, [][]string{{"日本"}})
		if b.String() != want {
			t.Errorf("locale %q: got %q, want %q", locale, b.String(), want)
		}
	}
}

func TestWithoutTerminalLinesAreWhole(t *testing.T) {
	var b strings.Builder
	p := terminal.New(&b)
	long := strings.Repeat("x", 500)
	p.Table(columns(), [][]string{{"win-1", "10.1.42.1", "Failed", long}})
	p.Field("Name", long)
	if strings.Count(b.String(), long) != 2 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("got %q", b.String())
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestStreamErrorIsKept(t *testing.T) {
	p := terminal.Fixed(closed{}, 80, false)
	p.Line("a")
	p.Field("b", "c")
	if p.Err() == nil {
		t.Error("there is not an error")
	}
}
