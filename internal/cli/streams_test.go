package cli_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/windows-machine-config/wmco/internal/cli"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// broken is a pipe whose reader has ended.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestABrokenPipeEndsTheProgramQuietly(t *testing.T) {
	for _, args := range [][]string{{"status"}, {"status", "-o", "json"}, {"describe", "win-1"}, {"events"}, {"plan"}} {
		var errs bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: broken{}, ErrOut: &errs}
		code := cli.Run(t.Context(), append(args, "--kubeconfig", upgrading(t).Kubeconfig), streams, "v1.0.0")
		if code != session.CodeFailed || errs.Len() > 0 {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
	}
}

func TestHostsAndFormatsAreCompleted(t *testing.T) {
	for line, want := range map[string]string{"describe": "win-1\nwin-2\nwin-3\n", "status -o": "json\nyaml\nwide\nname\n"} {
		args := append([]string{"__complete"}, strings.Fields(line)...)
		r := fleet(t).Run(t, "", append(args, "")...)
		if r.Code != session.CodeOK || !strings.HasPrefix(r.Out, want) {
			t.Errorf("%s is completed with %q (exit code %d: %s), want %q", line, r.Out, r.Code, r.Err, want)
		}
	}
}
