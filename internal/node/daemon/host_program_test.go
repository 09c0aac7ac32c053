package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

const hostedLog = `C:\var\log\program\program.log`

// hosting is a computer on which WICD runs programs as services.
type hosting struct {
	disk       hostapi.Disk
	contained  int
	containErr error
	// serve is the service manager; nil for none.
	serve func(run func(context.Context) uint32) error
}

func (h *hosting) call(args ...string) (code int, stderr string) {
	var errs bytes.Buffer
	code = daemon.Main(context.Background(), daemon.Call{
		Args: append([]string{"host", "--log-file", hostedLog}, args...), Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &errs,
		Host:  func() (hostapi.Host, error) { return hostapi.Host{Disk: h.disk}, nil },
		Serve: h.serve,
		Contain: func() error {
			h.contained++
			return h.containErr
		},
	})
	return code, errs.String()
}

func newHosting(t *testing.T) *hosting { return &hosting{disk: hostapi.Disk{Root: t.TempDir()}} }

func (h *hosting) log(t *testing.T) string {
	t.Helper()
	b, err := h.disk.Read(hostedLog)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestProgramOutputIsLoggedAndExitCodeReturned(t *testing.T) {
	t.Setenv("OURS", "as the service's")
	t.Setenv("NODE_NAME", "of the machine")
	h := newHosting(t)
	code, stderr := h.call("--env", "NODE_NAME=win-1", "--env", "A=b=c", "--", "/bin/sh", "-c", `echo "$NODE_NAME, $A, $OURS, $1"; echo complaint >&2; exit 7`, "sh", "--log-file")
	if code != 7 || stderr != "" || h.contained != 1 {
		t.Errorf("exit %d, stderr %q, contained %d times", code, stderr, h.contained)
	}
	if log := h.log(t); !strings.HasPrefix(log, "win-1, b=c, as the service's, --log-file\ncomplaint\n{") || !strings.Contains(log, "exit status 7") {
		t.Errorf("the log is %q", log)
	}
	var served uint32
	h.serve = func(run func(context.Context) uint32) error {
		served = run(context.Background())
		return nil
	}
	if code, stderr := h.call("--windows-service", "--", "/bin/sh", "-c", "exit 9"); code != 0 || stderr != "" || served != 9 {
		t.Errorf("as a service it ended with %d, and the process with %d (%q)", served, code, stderr)
	}
	if code, _ := h.call("--", "/bin/sh", "-c", "true"); code != 0 {
		t.Errorf("a successful program returned exit code %d", code)
	}
}

func TestLogCanBeTruncatedWhileProgramWrites(t *testing.T) {
	h := newHosting(t)
	goOn := filepath.Join(t.TempDir(), "go-on")
	done := make(chan int, 1)
	go func() {
		code, _ := h.call("--", "/bin/sh", "-c", `echo first; while [ ! -e "$0" ]; do sleep 0.01; done; echo second`, goOn)
		done <- code
	}()
	daemontest.Await(t, "the first line exists", func() bool {
		b, err := h.disk.Read(hostedLog)
		return err == nil && string(b) == "first\n"
	})
	if err := os.Truncate(h.disk.Local(hostedLog), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != 0 || h.log(t) != "second\n" {
		t.Errorf("exit %d, the log is %q", code, h.log(t))
	}
}

func TestProgramEndsWithService(t *testing.T) {
	h := newHosting(t)
	var exit uint32
	h.serve = func(run func(context.Context) uint32) error {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ended := make(chan uint32)
		go func() { ended <- run(ctx) }()
		daemontest.Await(t, "the program runs", func() bool {
			b, err := h.disk.Read(hostedLog)
			return err == nil && string(b) == "runs\n"
		})
		stop()
		exit = <-ended
		return nil
	}
	code, stderr := h.call("--windows-service", "--", "/bin/sh", "-c", "echo runs; exec sleep 1000")
	if code != 0 || exit != 0 || stderr != "" || h.log(t) != "runs\n" {
		t.Errorf("it ended with %d, the process with %d (%q), the log is %q", exit, code, stderr, h.log(t))
	}
}

func TestProgramRunsWithUnwritableLog(t *testing.T) {
	h := newHosting(t)
	if err := os.MkdirAll(h.disk.Local(hostedLog), 0o700); err != nil { // a folder has the log's name
		t.Fatal(err)
	}
	const more = "i=0; while [ $i -lt 4000 ]; do echo more than a pipe holds, a line at a time || exit 2; i=$((i+1)); done; exit 4"
	if code, _ := h.call("--", "/bin/sh", "-c", more); code != 4 {
		t.Errorf("it ended with %d", code)
	}
}

func TestProgramStartFailureIsReported(t *testing.T) {
	h := newHosting(t)
	if code, _ := h.call("--", "/no/such/program"); code != 1 || !strings.Contains(h.log(t), "/no/such/program") {
		t.Errorf("exit %d, the log is %q", code, h.log(t))
	}
	h = newHosting(t)
	h.containErr = errors.New("there is no job")
	if code, stderr := h.call("--", "/bin/sh", "-c", "echo ran"); code != 1 || !strings.Contains(stderr, "there is no job") || h.disk.Exists(hostedLog) {
		t.Errorf("exit %d, %q; the program ran although it could outlive the service: %v", code, stderr, h.disk.Exists(hostedLog))
	}
}
