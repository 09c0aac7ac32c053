//go:build !windows

package main

import (
	"errors"
	"time"
)

func processorTime() (time.Duration, error) { return 0, errors.ErrUnsupported }
