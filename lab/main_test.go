//go:build linux

package lab_test

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

// must ends a test that cannot go on after an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
