//go:build !windows

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
)

func dial(context.Context) (net.Conn, error) {
	return nil, fmt.Errorf("wicd-cni runs on Windows only: %w", errors.ErrUnsupported)
}
