//go:build unix

// Command mutate removes one safeguard after another, in a copy of the last commit, and runs the test that guards it. A test that
// still passes guards nothing. hack/mutants contains the changes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "run the mutants whose names match this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries all matching mutants in order, and returns an error that names those that no test found.
func run(ctx context.Context, only string) error {
	selected, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	folder, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	checkout := filepath.Join(folder, "checkout")
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", checkout).CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("git worktree add: %w: %s", err, out), os.RemoveAll(folder))
	}
	failed := tryAll(ctx, checkout, selected)
	out, err := exec.Command("git", "worktree", "remove", "--force", checkout).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git worktree remove: %w: %s", err, out)
	}
	return errors.Join(failed, err, os.RemoveAll(folder))
}

func tryAll(ctx context.Context, checkout string, selected *regexp.Regexp) error {
	mutants, err := load(filepath.Join(checkout, "hack", "mutants"))
	if err != nil {
		return err
	}
	var failed []error
	tried := 0
	unchanged := map[string]outcome{} // of tests that ran without a change
	for _, m := range mutants {
		if !selected.MatchString(m.name) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tried++
		started := time.Now()
		outcome := "found"
		if err := m.try(ctx, checkout, unchanged); err != nil {
			outcome = err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
		}
		fmt.Printf("%-50s %5.1f s  %s\n", m.name, time.Since(started).Seconds(), outcome)
	}
	if tried == 0 {
		return fmt.Errorf("-only %s: no mutant matches", selected)
	}
	fmt.Printf("%d mutants, %d not found\n", tried, len(failed))
	return errors.Join(failed...)
}

// try returns nil if the mutant's test passes without the change and fails with it. It runs a test without the change only once for all mutants.
func (m mutant) try(ctx context.Context, checkout string, unchanged map[string]outcome) error {
	key := m.module + " " + m.pkg + " " + m.test
	before, known := unchanged[key]
	if !known {
		var err error
		if before, err = m.run(ctx, checkout); err != nil {
			return err
		}
		unchanged[key] = before
	}
	if before != passed {
		return fmt.Errorf("%s %s %s without the change", m.pkg, m.test, before)
	}
	path := filepath.Join(checkout, filepath.FromSlash(m.file))
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := m.apply(string(text))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		return err
	}
	after, err := m.run(ctx, checkout)
	if err == nil && after != failed {
		err = fmt.Errorf("%s %s %s: %s", m.pkg, m.test, after, m.effect)
	}
	return errors.Join(err, os.WriteFile(path, text, 0o644))
}

// outcome is the result of a test.
type outcome string

const (
	passed      outcome = "passes"
	failed      outcome = "fails"
	notRun      outcome = "did not run"
	unbuilt     outcome = "does not compile"
	testTimeout         = 15 * time.Minute // includes compiling
	endless             = 4 * time.Minute  // a test that runs longer has failed
)

// run runs the mutant's test.
func (m mutant) run(ctx context.Context, checkout string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	// Go caches results without considering files outside of the test's module, such as deploy/ for the tests of lab.
	test := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-count=1", "-timeout", endless.String(), "-run", m.test, m.pkg)
	test.Dir = filepath.Join(checkout, m.module)
	test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	test.Cancel = func() error { return syscall.Kill(-test.Process.Pid, syscall.SIGKILL) } // go and the test that it started
	out, err := test.Output()
	if ctx.Err() != nil {
		return notRun, ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return notRun, err
	}
	return read(out), nil
}

// read returns the outcome from the events of go test -json. A skipped test did not run, and one whose process was killed failed.
func read(events []byte) outcome {
	found, started := notRun, false
	for line := range bytes.Lines(events) {
		var event struct{ Action, Test string }
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		switch {
		case event.Action == "build-fail":
			return unbuilt
		case event.Action == "fail" && (event.Test != "" || started):
			return failed
		case event.Test == "":
		case event.Action == "run":
			started = true
		case event.Action == "pass" && !strings.Contains(event.Test, "/"):
			found = passed
		}
	}
	return found
}
