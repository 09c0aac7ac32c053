//go:build linux

// Command conformance runs Kubernetes' own tests on the Windows nodes of a new lab or of any cluster. It compares the results
// of a lab with the expected failures, and writes docs/readiness.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/suites/conformance/readiness"
	"github.com/windows-machine-config/wmco/lab/suites/conformance/suite"
)

func main() {
	o := options{dir: "suites/conformance"}
	flag.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the kubeconfig of a cluster administrator; if empty, a lab is opened")
	flag.StringVar(&o.only, "only", "", "a SIG such as node, core, or a regular expression; if empty, all cases that apply to Windows")
	flag.IntVar(&o.parallel, "parallel", 4, "the number of suites that run in parallel")
	flag.DurationVar(&o.limit, "limit", 4*time.Hour, "the time limit of the run; remaining cases are left for another run")
	flag.BoolVar(&o.resume, "resume", false, "run only cases without a result in result.json")
	flag.BoolVar(&o.dryRun, "dry-run", false, "print the cases that would run, and update the lists of cases in result.json and docs/readiness.md")
	flag.BoolVar(&o.keep, "keep", true, "write the results of a lab to result.json and docs/readiness.md")
	flag.StringVar(&o.logs, "logs", "../_conformance", "the folder for reports and logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

type options struct {
	kubeconfig, only, logs string
	parallel               int
	limit                  time.Duration
	dryRun, keep, resume   bool
	// dir is the folder of this package, with the lists of cases and the result.
	dir string
}

func run(ctx context.Context, o options) error {
	program, err := lab.UpstreamTests(ctx, os.Stderr)
	if err != nil {
		return err
	}
	t, err := openTests(ctx, program, o)
	if err != nil {
		return err
	}
	return t.run(ctx)
}

func logf(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }

// tests are the cases of a run.
type tests struct {
	options
	program  string
	all      []string // cases of the suite
	selected []string
	before   suite.Result // of earlier runs
	expected []suite.Expectation
}

func openTests(ctx context.Context, program string, o options) (*tests, error) {
	t := &tests{options: o, program: program}
	var err error
	if t.logs, err = filepath.Abs(t.logs); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(t.logs, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder for logs: %w", err)
	}
	if t.before, err = suite.ReadResult(t.resultFile()); err != nil {
		return nil, err
	}
	if t.all, err = listTests(ctx, program); err != nil {
		return nil, err
	}
	if t.kubeconfig == "" { // failures are only expected in the lab
		text, err := os.ReadFile(filepath.Join(t.dir, "expected.yaml"))
		if err != nil {
			return nil, err
		}
		if t.expected, err = suite.ParseExpectations(text); err != nil {
			return nil, err
		}
	}
	core, err := os.ReadFile(filepath.Join(t.dir, "core.txt"))
	if err != nil {
		return nil, err
	}
	rows, err := readiness.Rows()
	if err != nil {
		return nil, err
	}
	s := suite.Selection{Only: t.only, Rows: readiness.Names(rows), Core: strings.Split(strings.TrimSpace(string(core)), "\n"), Done: suite.Untried(t.expected)}
	if t.resume && t.kubeconfig == "" {
		version, err := suiteVersion(ctx, program)
		if err != nil {
			return nil, err
		}
		s.Done = append(s.Done, t.before.Done(version)...)
	}
	t.selected, err = suite.Select(t.all, s)
	return t, err
}

// run opens the cluster, runs the cases, records their results, and compares them with the expected ones.
func (t *tests) run(ctx context.Context) (err error) {
	logf("%d of %d cases are selected", len(t.selected), len(t.all))
	if t.dryRun {
		fmt.Println(strings.Join(t.selected, "\n"))
		return t.record(ctx, t.before.Cluster, nil)
	}
	if len(t.selected) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	c, err := t.openCluster(limited)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	began := time.Now()
	verdicts, runErr := t.runCases(limited, c)
	j := suite.Compare(verdicts, t.expected)
	logf("%s; in %.0f s", j.Totals(), time.Since(began).Seconds())
	version, err := c.version()
	if err == nil { // also after an error or an interrupt
		err = t.record(context.WithoutCancel(ctx), version, verdicts)
	}
	return errors.Join(runErr, err, j.Err())
}

// record adds the verdicts of a run in the lab to those of earlier runs.
func (t *tests) record(ctx context.Context, cluster string, verdicts []suite.Verdict) error {
	if !t.keep || t.kubeconfig != "" {
		return nil
	}
	operator, err := repositoryVersion(ctx)
	if err != nil {
		return err
	}
	for i := range verdicts {
		verdicts[i].Version = operator
	}
	run := suite.Result{Cluster: cluster, Where: whereLab, Date: t.before.Date, Cases: verdicts}
	if len(verdicts) > 0 {
		run.Date = time.Now().UTC().Format(time.DateOnly)
	}
	if run.Suite, err = suiteVersion(ctx, t.program); err != nil {
		return err
	}
	after := t.before.Update(run, slices.DeleteFunc(slices.Clone(t.all), func(name string) bool { return !suite.Applies(name) }))
	if err := after.Write(t.resultFile()); err != nil {
		return err
	}
	return readiness.Write(filepath.Join(t.dir, "..", "..", "..", "docs", "readiness.md"), after, t.expected)
}

// whereLab is the kind of cluster in results of the lab.
const whereLab = "lab"

func (t *tests) resultFile() string { return filepath.Join(t.dir, "result.json") }
