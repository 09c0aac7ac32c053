package nodestatus

import "time"

// Problem is what a Node is told of by an event.
type Problem struct {
	// Service is the one to blame, or another name that tells problems apart.
	Service string
	// Reason is that of the event, and of a condition where there is one.
	Reason, Message string
	Since           time.Time
}
