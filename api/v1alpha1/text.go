package v1alpha1

import "strings"

// maxText is how much is kept, in bytes, of a text that a host or a Node says of itself: a name, a message, an error. Objects of others
// repeat such texts, and etcd refuses objects that are too large, so that a host without limits could keep its status from being written.
const maxText = 4096

// Clip cuts a text to maxText, between two characters, and says so by three dots. What is no UTF-8 is left out.
func Clip(text string) string {
	const mark = "..."
	if len(text) > maxText {
		text = text[:maxText-len(mark)] + mark
	}
	return strings.ToValidUTF8(text, "")
}
