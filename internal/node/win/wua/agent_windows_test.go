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
	if len(os.Args) >= 2 {
		switch os.Args[1] {
		case Command:
			os.Exit(Answer(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case "hang":
			fmt.Print("{")
			time.Sleep(time.Hour)
		case "chatter":
			fmt.Print(strings.Repeat("x", windowsupdate.MaxBytes+1))
			os.Exit(0)
		case "echo":
			fmt.Fprint(os.Stderr, strings.Join(os.Args[2:], " "))
			os.Exit(4)
		case "garbage":
			if len(os.Args) == 2 {
				fmt.Print(`{"read":"2026-11-29T12:00:00Z","total":0}`)
			}
			fmt.Print(`{}{}`)
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
		_, errOfInstall := Agent{Arguments: []string{what}}.Install(t.Context(), []string{idOfUpdate(1)})
		for _, err := range []error{err, errOfInstall} {
			if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 3<<10 {
				t.Errorf("%s: error %.3000v, want %q", what, err, want)
			}
		}
	}
}

// TestProcessGetsOperation: invalid IDs start no process.
func TestProcessGetsOperation(t *testing.T) {
	a, ids := Agent{Arguments: []string{"echo"}}, []string{idOfUpdate(1), idOfUpdate(2)}
	for name, test := range map[string]struct {
		call func() error
		want string
	}{
		"read":     {func() error { _, err := a.Updates(t.Context()); return err }, "exit status 4: "},
		"search":   {func() error { _, err := a.Search(t.Context()); return err }, "exit status 4: search"},
		"download": {func() error { _, err := a.Download(t.Context(), ids); return err }, "exit status 4: download " + strings.Join(ids, " ")},
		"install":  {func() error { _, err := a.Install(t.Context(), ids); return err }, "exit status 4: install " + strings.Join(ids, " ")},
		"no ID":    {func() error { _, err := a.Install(t.Context(), []string{"search"}); return err }, "not an update ID"},
		"invalid operation": {func() error {
			_, err := Agent{Arguments: []string{Command, "uninstall"}}.Updates(t.Context())
			return err
		}, `exit status 1: "uninstall" is not an update operation`},
	} {
		if err := test.call(); err == nil || !strings.HasSuffix(err.Error(), test.want) && !strings.Contains(err.Error(), test.want+" ") &&
			!strings.Contains(err.Error(), test.want+";") {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

// TestOperationsOfThisWindowsAnswer expects that an unknown update has no result on any Windows. Wine's agent fails, and says where.
func TestOperationsOfThisWindowsAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for name, operate := range map[string]func(context.Context, []string) (windowsupdate.Outcome, error){
		"download": Agent{}.Download, "install": Agent{}.Install,
	} {
		o, err := operate(ctx, []string{idOfUpdate(0)})
		if err != nil || len(o.Results) > 0 || o.Restart {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if o.Failure != nil {
			t.Log(name, o.Failure)
			if o.Failure.Code == 0 {
				t.Errorf("%s: %s failed without an HRESULT", name, o.Failure.Call)
			}
		}
	}
}

func TestHangingProcessIsEnded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	a := Agent{Arguments: []string{"hang"}}
	if _, err := a.Updates(ctx); !errors.Is(err, hostapi.ErrAgentSilent) {
		t.Errorf("a process that hangs is error %v", err)
	}
	if _, err := a.Install(ctx, []string{idOfUpdate(1)}); !errors.Is(err, hostapi.ErrAgentSilent) {
		t.Errorf("without time, the error of an installation is %v", err)
	}
}

func TestProcessDoesNotStartAnother(t *testing.T) {
	t.Setenv("WICD_SUBPROCESS", "1")
	if _, err := (Agent{Arguments: []string{"garbage"}}).Updates(t.Context()); err == nil || !strings.Contains(err.Error(), "must not start another") {
		t.Errorf("in the process itself, the error is %v", err)
	}
}
