package win

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

func TestProgramGetsInputAndReturnsOutput(t *testing.T) {
	t.Setenv(asEcho, "1")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	if err := mustHost(t).Programs.Run(deadline(t), program+" one two", strings.NewReader("a line\n"), &output); err != nil {
		t.Fatal(err)
	}
	if output.String() != "one two: a line\n" {
		t.Errorf("output %q", output.String())
	}
	err = mustHost(t).Programs.Run(deadline(t), program+" fail", strings.NewReader("why\n"), &output)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "why") {
		t.Errorf("error %v, want the exit code and the standard error", err)
	}
	for _, command := range []string{"", `C:\no\such\program.exe x`} {
		if err := mustHost(t).Programs.Run(deadline(t), command, strings.NewReader(""), &output); err == nil {
			t.Errorf("%q ran", command)
		}
	}
}

func TestProgramEndsWithContext(t *testing.T) {
	t.Setenv(asEcho, "1")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := mustHost(t).Programs.Run(ctx, program+" hang", strings.NewReader("\n"), &strings.Builder{}); err == nil {
		t.Error("a hanging program succeeded")
	}
}

// deadline is the timeout of a test.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
