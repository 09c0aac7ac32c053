//go:build !windows

package scm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Serve returns errors.ErrUnsupported: only Windows has services.
func Serve(service string, _ func(context.Context) uint32) error {
	return fmt.Errorf("running service %s on %s: %w", service, runtime.GOOS, errors.ErrUnsupported)
}
