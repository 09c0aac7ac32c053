//go:build !windows

package win

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/windows-machine-config/wmco/internal/daemon"
)

// Host returns errors.ErrUnsupported: this is not Windows.
func Host() (daemon.Host, error) {
	return daemon.Host{}, fmt.Errorf("calling Windows on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Serve returns errors.ErrUnsupported: services are Windows'.
func Serve(service string, _ func(context.Context)) error { return ServeCode(service, nil) }

// ServeCode returns errors.ErrUnsupported: services are Windows'.
func ServeCode(service string, _ func(context.Context) uint32) error {
	return fmt.Errorf("running service %s on %s: %w", service, runtime.GOOS, errors.ErrUnsupported)
}

// Contain returns errors.ErrUnsupported: jobs are Windows'.
func Contain() error {
	return fmt.Errorf("making a job on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
