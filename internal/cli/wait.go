package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// waiter shows the progress of hosts until they reach the requested state.
type waiter struct {
	s       *session.Session
	timeout time.Duration
	// printed is the last line printed for each host.
	printed map[string]string
}

const waitPause = 2 * time.Second

// until reads the fleet until done returns true or the timeout passes. done may return an error to end the wait.
func (w *waiter) until(ctx context.Context, done func(fleetstatus.Fleet) (bool, error)) error {
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	for readCtx := parent; ; readCtx = ctx { // the first read may exceed the timeout, so that there is a state to report
		f, err := readFleet(readCtx, w.s)
		if readCtx.Err() == nil {
			if err != nil {
				return err
			}
			if finished, err := done(f); finished || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return session.Failf(session.CodeTimeout, "timed out after %s; kubectl windows status shows the progress%s", w.timeout, w.last())
			}
			return session.Failf(session.CodeFailed, "interrupted; the operator continues")
		case <-time.After(waitPause):
		}
	}
}

// last returns the last lines of all hosts.
func (w *waiter) last() string {
	var lines []string
	for name, line := range w.printed {
		lines = append(lines, name+" is "+line)
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines[:min(len(lines), maxNamed)], "; ")
}

func (w *waiter) print(h fleetstatus.Host) {
	line := fmt.Sprintf("%s (%s)", h.State, h.Reason)
	switch {
	case h.Maintenance != nil:
		line += " " + nextAction(h) + ": " + firstLine(h.Maintenance.Message)
	case h.Plan != nil && h.Plan.WaitsFor != "":
		line += " " + nextAction(h) + ": " + firstLine(h.Plan.Message)
	default:
		if i := slices.IndexFunc(h.Steps, func(s fleetstatus.Step) bool { return s.State == "Running" }); i >= 0 {
			line += " step " + h.Steps[i].Name
		}
	}
	line = strings.TrimRight(line, ": ")
	if w.printed == nil {
		w.printed = map[string]string{}
	}
	if w.printed[h.Name] != line {
		w.printed[h.Name] = line
		fmt.Fprintf(w.s.Out, "%s  %s: %s\n", time.Now().Format(time.TimeOnly), h.Name, line)
	}
}

// blockingError prints a host's first error and returns it as an error; nil if there is none.
func (w *waiter) blockingError(h fleetstatus.Host) error {
	for _, p := range h.Problems {
		if p.Severity == advice.Error {
			out := terminal.New(w.s.Out)
			printProblem(out, p)
			return session.Failf(session.CodeFindings, "host %s is blocked: %s. The operator retries once the cause is fixed", h.Name, p.Reason)
		}
	}
	return nil
}
