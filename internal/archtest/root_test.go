package archtest

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests in the repository's root, so that they name files as documents do.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}
