//go:build !windows

package wua

import "io"

// Answer fails: this is not Windows.
func Answer(io.Reader, io.Writer) int { return 1 }
