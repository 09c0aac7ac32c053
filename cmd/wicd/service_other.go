//go:build !windows

package main

import (
	"context"
	"errors"
)

// serveWindows is for Windows only.
func serveWindows(func(context.Context)) error { return errors.ErrUnsupported }
