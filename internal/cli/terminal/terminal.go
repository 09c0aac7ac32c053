// Package terminal prints text for people: tables, fields and paragraphs that fit the width of the terminal, with colors if the terminal
// supports them and the user wants them. Other outputs get plain lines of any length.
package terminal

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Style is how a text looks.
type Style int

// Text styles.
const (
	// Plain is the terminal's default.
	Plain Style = iota
	// Bold is for headings.
	Bold
	// Faint is for less important text.
	Faint
	// Good, Warn and Bad are the colors of a traffic light.
	Good
	Warn
	Bad
)

const minWidth = 20

// Printer prints to a stream. It keeps the stream's first error.
type Printer struct {
	out   io.Writer
	width int // 0: any
	color bool
	ascii bool // the locale supports ASCII only
	err   error
}

// New returns a printer for a stream. It uses width and colors of the terminal if the stream is one. Environment variable NO_COLOR turns colors
// off (https://no-color.org), COLUMNS sets the width. In an ASCII locale (LANG=C), it prints ASCII only.
func New(out io.Writer) *Printer {
	p := &Printer{out: out, ascii: isASCII(os.Getenv)}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return p
	}
	p.width, _, _ = term.GetSize(int(file.Fd()))
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		p.width = columns
	}
	p.width = max(p.width, minWidth)
	p.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return p
}

// Fixed returns a printer with this width; 0 means unlimited.
func Fixed(out io.Writer, width int, color bool) *Printer {
	if width > 0 {
		width = max(width, minWidth)
	}
	return &Printer{out: out, width: width, color: color}
}

// isASCII reports whether the locale lacks Unicode, by the POSIX variables in their order. If none is set, it returns false.
func isASCII(getenv func(string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}

// plain returns a text in the characters of the locale.
func (p *Printer) plain(text string) string {
	if !p.ascii {
		return text
	}
	signs := strings.NewReplacer("→", "->", "…", "...", "✗", "x", "✓", "+", "·", "-")
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, signs.Replace(text))
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Err returns the stream's first error, such as that of a closed pipe.
func (p *Printer) Err() error { return p.err }

// Color reports whether the printer uses colors.
func (p *Printer) Color() bool { return p.color }

// Line prints one line, cut to the width.
func (p *Printer) Line(text string) {
	text = p.plain(text)
	if p.width > 0 {
		text = ansi.Truncate(text, p.width, p.plain("…"))
	}
	p.write(text + "\n")
}

// Styled applies a style to a text.
func (p *Printer) Styled(s Style, text string) string {
	code := [...]string{"", "1", "2", "32", "33", "31"}[s]
	if !p.color || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Heading prints the heading of a section.
func (p *Printer) Heading(text string) { p.Line(p.Styled(Bold, text)) }

// Text prints a paragraph, wrapped and indented. It keeps line breaks.
func (p *Printer) Text(indent int, s Style, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		for _, part := range p.wrapped(line, indent) {
			p.write(strings.Repeat(" ", indent) + p.Styled(s, part) + "\n")
		}
	}
}

func (p *Printer) wrapped(line string, indent int) []string {
	line = p.plain(line)
	if p.width == 0 {
		return []string{line}
	}
	width := max(p.width-indent, minWidth/2)
	return strings.Split(ansi.Hardwrap(ansi.Wrap(line, width, ""), width, true), "\n") // Wrap does not break long words
}

const fieldWidth = 14

// Field prints a name and a value, which is wrapped next to the name. On a narrow terminal, the value is below the name.
func (p *Printer) Field(name, value string) {
	if value == "" {
		return
	}
	if p.width > 0 && p.width < 3*fieldWidth {
		p.Line(p.Styled(Bold, name))
		p.Text(2, Plain, value)
		return
	}
	label := fmt.Sprintf("%-*s", fieldWidth, name)
	for line := range strings.SplitSeq(value, "\n") {
		for _, part := range p.wrapped(line, fieldWidth) {
			p.write(p.Styled(Bold, label) + part + "\n")
			label = strings.Repeat(" ", fieldWidth)
		}
	}
}

func (p *Printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, text)
	}
}

// Column is a column of a table.
type Column struct {
	Name string
	// Weight decides which columns are left out first on a narrow terminal: those with the smallest weight.
	Weight int
	// Style returns the style of a cell; nil for none.
	Style func(cell string) Style
}

// Table prints rows below their headings, with one line per cell. On a narrow terminal, it leaves out columns and then cuts the last one.
func (p *Printer) Table(columns []Column, rows [][]string) {
	shown := make([]int, len(columns))
	widths := make([]int, len(columns))
	for c := range columns {
		shown[c], widths[c] = c, ansi.StringWidth(columns[c].Name)
		for _, row := range rows {
			row[c] = p.plain(oneLine(row[c]))
			widths[c] = max(widths[c], ansi.StringWidth(row[c]))
		}
	}
	total := func() (sum int) {
		for _, c := range shown {
			sum += widths[c] + 2
		}
		return sum - 2
	}
	for p.width > 0 && total() > p.width && len(shown) > 2 {
		least := slices.MinFunc(shown, func(a, b int) int {
			return cmp.Or(cmp.Compare(columns[a].Weight, columns[b].Weight), cmp.Compare(b, a))
		})
		if lastIsText := columns[shown[len(shown)-1]].Weight > columns[least].Weight; total()-widths[shown[len(shown)-1]]+minWidth <= p.width && lastIsText {
			break // the last column can be cut
		}
		shown = slices.DeleteFunc(shown, func(c int) bool { return c == least })
	}
	head := make([]string, len(columns))
	for c := range columns {
		head[c] = columns[c].Name
	}
	p.row(columns, shown, widths, head, true)
	for _, row := range rows {
		p.row(columns, shown, widths, row, false)
	}
}

func (p *Printer) row(columns []Column, shown, widths []int, cells []string, head bool) {
	var b strings.Builder
	for n, c := range shown {
		cell, style := cells[c], Plain
		switch {
		case head:
			style = Bold
		case columns[c].Style != nil:
			style = columns[c].Style(cell)
		}
		b.WriteString(p.Styled(style, cell))
		if n < len(shown)-1 {
			b.WriteString(strings.Repeat(" ", widths[c]-ansi.StringWidth(cell)+2))
		}
	}
	p.Line(b.String())
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
