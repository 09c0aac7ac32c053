package archtest

import (
	"os"
	"testing"
)

// inRoot makes the repository's root the current directory, so that tests name files as documents do. Each test calls it first: go test caches results
// by the files that a test opens, and does not notice a change of directory in TestMain.
func inRoot(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("go.mod"); err == nil {
		return
	}
	must(t, os.Chdir("../.."))
}
