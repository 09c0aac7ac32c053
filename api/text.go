package api

import "strings"

// Clip truncates text that a host or a Node reports about itself (a name, a message, an error) to 4096 bytes, at a
// character boundary, and marks the cut with three dots. It removes invalid UTF-8. Such text is repeated in other
// objects, and etcd rejects objects that are too large: without a limit, a host that reports megabytes could block
// writes of its own status and of other objects.
func Clip(text string) string {
	const most, mark = 4096, "..."
	if len(text) > most {
		text = text[:most-len(mark)] + mark
	}
	return strings.ToValidUTF8(text, "")
}
