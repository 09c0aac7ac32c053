package nodestatus

import "time"

// Problem is what an event of the Node reports.
type Problem struct {
	// Service is the cause, or another name that distinguishes problems.
	Service string
	// Reason is the reason of the event, and of the condition if there is one.
	Reason, Message string
	Since           time.Time
}
