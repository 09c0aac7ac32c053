package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

func call(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = daemon.Main(context.Background(), daemon.Call{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Host: func() (hostapi.Host, error) { return hostapi.Host{}, errors.ErrUnsupported },
	})
	return code, out.String(), errs.String()
}

func TestEveryCommandHasUsage(t *testing.T) {
	for _, name := range []string{"facts", "receive", "join", "leave", "status", "run", "host"} {
		code, stdout, _ := call(name, "--help")
		if code != 0 || !strings.Contains(stdout, "windows-instance-config-daemon "+name) {
			t.Errorf("%s --help: exit %d, %q", name, code, stdout)
		}
	}
	if code, stdout, _ := call("--help"); code != 0 || !strings.Contains(stdout, "receive") {
		t.Errorf("--help: exit %d, %q", code, stdout)
	}
}

func TestInvalidUsageIsReported(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"unknown", `unknown command "unknown"; the commands are facts, reach, receive, prepare, join, leave, restart, install-updates, status, update, run, host`},
		{"", "Usage:"},
		{"facts extra", `unexpected argument "extra"`},
		{"run --nonsense", "nonsense"},
		{"host --env x -- y", "NAME=value is needed"},
		{"host --log-file x", "no program given; usage: host [flags] -- <program> [arguments]"},
	} {
		code, stdout, stderr := call(strings.Fields(test.args)...)
		if code != 1 || !strings.Contains(stderr, test.want) || stdout != "" {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", test.args, code, stdout, stderr)
		}
	}
}

func TestNonWindowsMachineReturnsError(t *testing.T) {
	if code, stdout, _ := call("facts"); code != 1 || !strings.Contains(stdout, `"error"`) {
		t.Errorf("facts: exit %d, %q", code, stdout)
	}
	if code, _, stderr := call("run"); code != 1 || stderr == "" {
		t.Errorf("run: exit %d, %q", code, stderr)
	}
}
