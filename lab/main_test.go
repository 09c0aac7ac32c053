//go:build linux

package lab_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/lab"
)

func TestMain(m *testing.M) { lab.RunTests(m) }

// must fails the test immediately if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
