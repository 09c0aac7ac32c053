//go:build !windows

package win

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Host returns errors.ErrUnsupported: this is not Windows.
func Host() (hostapi.Host, error) {
	return hostapi.Host{}, fmt.Errorf("calling Windows on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Edition has no meaning on this system.
type Edition struct{ Wine, Desktop, Elevated bool }

// ThisEdition is empty: this is not Windows.
func ThisEdition() Edition { return Edition{} }

// Contain returns errors.ErrUnsupported: only Windows has jobs.
func Contain() error {
	return fmt.Errorf("creating a job object on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// callDISM fails: this is not Windows.
func callDISM([]string, io.Reader, io.Writer) int { return 1 }
