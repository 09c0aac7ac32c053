package terminal_test

import (
	"errors"
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

// TestEverythingFitsTheTerminal prints a table, a field and a text at each width.
func TestEverythingFitsTheTerminal(t *testing.T) {
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

func TestWithoutTerminalLinesAreWhole(t *testing.T) {
	var b strings.Builder
	p := terminal.New(&b)
	long := strings.Repeat("x", 500)
	p.Table(columns(), [][]string{{"win-1", "10.1.42.1", "Failed", long}})
	p.Field("Name", long)
	if strings.Count(b.String(), long) != 2 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("it prints %q", b.String())
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestErrorsOfTheStreamAreKept(t *testing.T) {
	p := terminal.Fixed(closed{}, 80, false)
	p.Line("a")
	p.Field("b", "c")
	if p.Err() == nil {
		t.Error("there is no error")
	}
}
