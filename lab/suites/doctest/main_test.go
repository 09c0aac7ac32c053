//go:build linux

package doctest

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/lab"
)

// waitTimeout is the timeout for operations that take seconds on an idle machine, at speed factor 1.
const waitTimeout = 5 * time.Minute

func TestMain(m *testing.M) { lab.RunTests(m) }

// needs skips a test if one of the errors is not nil.
func needs(t *testing.T, missing ...error) {
	t.Helper()
	for _, err := range missing {
		if err != nil {
			t.Skip("SKIPPED:", err)
		}
	}
}
