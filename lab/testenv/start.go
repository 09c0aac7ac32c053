//go:build linux

package testenv

import (
	"os"
	"testing"
)

// Start opens an environment for a test, and closes it at the test's end. If the test fails, it logs the environment's diagnosis.
func Start(t testing.TB, o Options) *Env {
	t.Helper()
	o.Log = os.Stderr
	env, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(env.Diagnosis())
		}
		env.Close()
	})
	return env
}
