package api

import "strings"

// Clip cuts what a host or a Node says of itself (a name, a message, an error) to 4096 bytes, between two characters, and says so by three
// dots. What is no UTF-8 is left out. Objects of others repeat such texts, and etcd refuses objects that are too large: a host that says
// megabytes could keep its own status, and that of others, from being written.
func Clip(text string) string {
	const most, mark = 4096, "..."
	if len(text) > most {
		text = text[:most-len(mark)] + mark
	}
	return strings.ToValidUTF8(text, "")
}
