//go:build !windows

package main

import (
	"errors"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
)

// networks returns errors.ErrUnsupported on systems other than Windows. The program then ends, and uses neither routes nor adapters.
func networks() (overlay.HNS, error) {
	return nil, fmt.Errorf("hybrid-overlay-node runs on Windows only: %w", errors.ErrUnsupported)
}

func routes() overlay.Routes { return nil }

func adapters() overlay.Adapters { return nil }
