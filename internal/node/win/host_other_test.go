//go:build !windows

package win_test

import (
	"errors"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/win"
)

func TestHostIsUnsupportedOutsideWindows(t *testing.T) {
	if _, err := win.Host(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Host() = %v, want errors.ErrUnsupported", err)
	}
}
