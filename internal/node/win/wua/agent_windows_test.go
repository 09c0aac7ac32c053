package wua

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// TestMain runs the test program as the process that asks the agent, and as such processes that misbehave.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case Command:
			os.Exit(Answer(os.Stdin, os.Stdout))
		case "hang":
			fmt.Print("{")
			time.Sleep(time.Hour)
		case "chatter":
			fmt.Print(strings.Repeat("x", windowsupdate.MaxBytes+1))
			os.Exit(0)
		case "garbage":
			fmt.Print(`{"read":"2026-11-29T12:00:00Z","total":0}{}`)
			os.Exit(0)
		case "crash":
			fmt.Fprint(os.Stderr, "out of memory", strings.Repeat("!", 1<<20))
			os.Exit(3)
		}
	}
	os.Exit(m.Run())
}

// TestAgentOfThisWindowsIsAsked expects a report of any Windows. Wine has an agent that implements nothing.
func TestAgentOfThisWindowsIsAsked(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r, err := Agent{}.Updates(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pending: %d, history: %d, searched: %s, installed: %s, disabled: %v", r.Total, len(r.History), r.Searched, r.WindowsInstalled, r.Disabled)
	for _, f := range r.Failures {
		t.Log(f)
		if f.Code == 0 {
			t.Errorf("%s failed without an HRESULT", f.Call)
		}
	}
}

func TestMisbehavingProcessIsAnError(t *testing.T) {
	for what, want := range map[string]string{"chatter": "more than", "garbage": "text follows", "crash": "exit status 3: out of memory!!!"} {
		_, err := Agent{Arguments: []string{what}}.Updates(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 3<<10 {
			t.Errorf("%s: error %.3000v, want %q", what, err, want)
		}
	}
}

func TestHangingProcessIsEnded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := (Agent{Arguments: []string{"hang"}}).Updates(ctx); !errors.Is(err, hostapi.ErrAgentSilent) {
		t.Errorf("a process that hangs is error %v", err)
	}
}

func TestProcessDoesNotStartAnother(t *testing.T) {
	t.Setenv("WICD_SUBPROCESS", "1")
	if _, err := (Agent{Arguments: []string{"garbage"}}).Updates(t.Context()); err == nil || !strings.Contains(err.Error(), "must not start another") {
		t.Errorf("in the process itself, the error is %v", err)
	}
}
