//go:build !windows

package network

import (
	"os"
	"path/filepath"
	"testing"
)

// TestProgramEndsWhileChildHoldsItsOutput covers a program that ended while its child keeps running.
func TestProgramEndsWhileChildHoldsItsOutput(t *testing.T) {
	ended := filepath.Join(t.TempDir(), "ended")
	t.Setenv("ENDED", ended)
	output, err := runProgram(t.Context(), "sh", "-c", `echo here; (sleep 20; touch "$ENDED") &`)
	if output != "here\n" || err != nil {
		t.Errorf("output %q, %v", output, err)
	}
	if _, err := os.Stat(ended); err == nil {
		t.Error("the call waited for a process that the program had started")
	}
}
