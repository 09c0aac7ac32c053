package nodestatus

import (
	"strings"
	"time"
)

// Problem is what a Node is told of by an event.
type Problem struct {
	// Service is the one to blame, or another name that tells problems apart.
	Service string
	// Reason is that of the event, and of a condition where there is one.
	Reason, Message string
	Since           time.Time
}

// MaxMessage bounds a message, in bytes: the note of an event may have 1024 (k8s.io/kubernetes,
// pkg/apis/core/validation/events.go).
const MaxMessage = 1000

// Shorten is a message that an event can have as its note.
func Shorten(message string) string {
	if len(message) <= MaxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:MaxMessage], "")
}
