//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/lab/suites/conformance/suite"
)

const (
	// batchSize is the number of cases that a process runs, because it takes some seconds to start.
	batchSize = 12
	// interruptTimeout limits the time in which an interrupted process deletes its objects and writes its report.
	interruptTimeout = 90 * time.Second
	// commandTimeout limits the time of a command that runs no cases.
	commandTimeout = 2 * time.Minute
)

// output runs a short command, and returns its output.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", filepath.Base(name), err)
	}
	return out, nil
}

func listTests(ctx context.Context, program string) ([]string, error) {
	out, err := output(ctx, program, "-list-tests")
	if err != nil {
		return nil, err
	}
	return suite.ParseList(bytes.NewReader(out))
}

func suiteVersion(ctx context.Context, program string) (string, error) {
	out, err := output(ctx, program, "-version")
	return strings.TrimSpace(string(out)), err
}

func repositoryVersion(ctx context.Context) (string, error) {
	out, err := output(ctx, "git", "describe", "--tags", "--always", "--dirty")
	return strings.TrimSpace(string(out)), err
}

// runCases runs all batches, and prints each verdict when its batch is done. It returns the verdicts in the order of the cases.
func (t *tests) runCases(ctx context.Context, c *cluster) ([]suite.Verdict, error) {
	batches := suite.Batches(t.selected, batchSize)
	results := make([][]suite.Verdict, len(batches))
	failures := make([]error, len(batches))
	run := func(n int) {
		results[n], failures[n] = t.runBatch(ctx, c, n, batches[n])
		for _, v := range results[n] {
			fmt.Printf("%-8s %5.0f s  %s\n", v.State, v.Seconds, v.Case)
		}
	}
	free := make(chan struct{}, t.parallel)
	var running sync.WaitGroup
	for n, b := range batches {
		if b.Alone {
			running.Wait()
			run(n)
			continue
		}
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			run(n)
		})
	}
	running.Wait()
	var verdicts []suite.Verdict
	for _, r := range results {
		verdicts = append(verdicts, r...)
	}
	return verdicts, errors.Join(failures...)
}

// runBatch runs a batch in a process of the suite. When ctx ends, the process is interrupted, and the remaining cases are not run.
func (t *tests) runBatch(ctx context.Context, c *cluster, n int, b suite.Batch) ([]suite.Verdict, error) {
	none, _ := suite.ParseReport(strings.NewReader("<testsuites></testsuites>"), b.Cases)
	if ctx.Err() != nil {
		return none, nil
	}
	dir := filepath.Join(t.logs, fmt.Sprintf("%03d-%s", n, b.SIG))
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return none, fmt.Errorf("creating a folder for the report: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "log.txt"))
	if err != nil {
		return none, fmt.Errorf("creating a log: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, t.program, "-kubeconfig="+c.kubeconfig, "-kubectl-path="+c.kubectl, "-provider=skeleton", "-node-os-distro=windows",
		"-non-blocking-taints="+nonBlockingTaints, "-disable-log-dump", "-e2e-output-dir="+dir, "-report-dir="+dir,
		"-ginkgo.focus="+b.Focus(), "-ginkgo.silence-skips", "-ginkgo.no-color", "-ginkgo.timeout=24h", "-ginkgo.grace-period="+interruptTimeout.String())
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // for files that cases do not remove
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * interruptTimeout
	runErr := cmd.Run() // failed cases also set the exit code, so only the report shows the results
	report, err := os.Open(filepath.Join(dir, "junit_01.xml"))
	if errors.Is(err, fs.ErrNotExist) && ctx.Err() != nil {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("running the cases of %s: %w: %w; see %s", b.SIG, runErr, err, log.Name())
	}
	defer report.Close()
	verdicts, err := suite.ParseReport(report, b.Cases)
	if err != nil {
		return none, fmt.Errorf("running the cases of %s: %w; see %s", b.SIG, err, log.Name())
	}
	return verdicts, nil
}
