//go:build !windows

package wua

import "io"

// Answer fails: this is not Windows.
func Answer([]string, io.Reader, io.Writer, io.Writer) int { return 1 }
