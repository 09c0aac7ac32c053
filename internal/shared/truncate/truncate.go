// Package truncate limits the length of texts and lists in messages to what the objects that contain them allow, and marks the cut. It does no
// I/O.
package truncate

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Limits of texts, in bytes.
const (
	// Reported is for what a host or a Node reports about itself (a name, a message, an error). Such text is repeated in other objects,
	// and etcd rejects objects that are too large: without a limit, a host that reports megabytes could block writes of its own
	// status and of other objects.
	Reported = 4096
	// Note is what the API allows for the note of an event (k8s.io/kubernetes, pkg/apis/core/validation/events.go).
	Note = 1024
	// Quoted is for a value that a message quotes.
	Quoted = 80
)

// mark ends a shortened text.
const mark = "..."

// Text cuts a text to at most limit bytes, at a character boundary, and marks the cut with three dots. It removes invalid UTF-8.
func Text(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit-len(mark)] + mark
	}
	return strings.ToValidUTF8(text, "")
}

// Middle cuts a text to at most limit bytes like Text, but from its middle: error messages of programs end with the cause.
func Middle(text string, limit int) string {
	if len(text) > limit {
		begin := (limit - len(mark)) / 3
		text = text[:begin] + mark + text[len(text)-(limit-len(mark)-begin):]
	}
	return strings.ToValidUTF8(text, "")
}

// List joins the first items and adds how many more there are.
func List(items []string, limit int, separator string) string {
	text := strings.Join(items[:min(len(items), limit)], separator)
	if more := len(items) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Printable makes text from other sources safe to print: terminals interpret control characters, and some Unicode characters reverse the
// direction of the following text. These are escaped as in Go, for example \x1b. Line breaks stay, tabs become spaces, and carriage returns
// before line breaks are removed. The result has at most limit bytes.
func Printable(text string, limit int) string {
	text = Text(text, limit) // first, because escaping is slow
	var b strings.Builder
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\t':
			b.WriteByte(' ')
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return Text(b.String(), limit)
}
