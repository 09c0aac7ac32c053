// Command record draws the output of a program as a picture (SVG) in which each line appears when it was printed: `make
// recording`. Without animation, the picture shows all lines.
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// The recorded part of the demo: from the first line with prefix first to the first line that contains last.
const (
	first = "==> Secret "
	last  = " a pod shows a ConfigMap"
)

// The size of a character and of a line, in pixels.
const (
	fontSize   = 13
	charWidth  = 7.85
	lineHeight = 18
	margin     = 14
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: make demo EXIT=1 | go run ./hack/record FILE.svg")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(from io.Reader, to string) error {
	lines, err := record(io.TeeReader(from, os.Stdout))
	if err != nil {
		return err
	}
	return os.WriteFile(to, []byte(draw(lines)), 0o644)
}

// line is one line of text, and when it was printed, relative to the first.
type line struct {
	at   time.Duration
	text string
}

// record reads until the demo has shown everything.
func record(from io.Reader) (lines []line, err error) {
	var start time.Time
	whole := false
	for in := bufio.NewScanner(from); in.Scan(); { // to the end, or the demo's writes would fail
		text := strings.TrimRight(in.Text(), " ")
		if start.IsZero() && strings.HasPrefix(text, first) {
			start = time.Now()
		}
		if start.IsZero() || whole {
			continue
		}
		lines = append(lines, line{time.Since(start), text})
		whole = strings.Contains(text, last)
	}
	if !whole {
		return nil, fmt.Errorf("no line contains %q: the demo did not show all", last)
	}
	return lines, nil
}

// draw returns the picture.
func draw(lines []line) string {
	columns := 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(l.text))
	}
	width, height := int(float64(columns)*charWidth)+2*margin, len(lines)*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" xml:space="preserve" role="img" aria-label="A Windows host becomes a node">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<style>@keyframes unseen{from,to{opacity:0}} text{font:%dpx ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#d6deeb;animation:unseen 0s} .head{fill:#82aaff} .done{fill:#addb67}</style>\n", fontSize)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#0b1622"/>`+"\n", width, height)
	for n, l := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="%s" style="animation-duration:%.1fs">%s</text>`+"\n",
			margin, margin+(n+1)*lineHeight-5, class(l.text), l.at.Seconds(), html.EscapeString(l.text))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func class(text string) string {
	switch {
	case strings.HasPrefix(text, "==>"):
		return "head"
	case strings.Contains(text, " Ready") && strings.HasPrefix(text, "node/"), strings.Contains(text, "Running, answers"):
		return "done"
	}
	return "line"
}
