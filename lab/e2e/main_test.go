//go:build linux

package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/windows-machine-config/wmco/lab"
)

func TestMain(m *testing.M) {
	if err := lab.PreferMemory(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
