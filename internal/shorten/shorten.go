// Package shorten cuts texts and lists that go into messages to a length that the objects which carry them may have, and marks the
// cut. It is pure.
package shorten

import (
	"fmt"
	"strings"
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

// mark ends a text that was cut.
const mark = "..."

// Text cuts a text to some bytes, at a character boundary, and marks the cut with three dots. It removes invalid UTF-8.
func Text(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit-len(mark)] + mark
	}
	return strings.ToValidUTF8(text, "")
}

// List joins the first of some items, and says how many more there are.
func List(items []string, limit int, separator string) string {
	text := strings.Join(items[:min(len(items), limit)], separator)
	if more := len(items) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
