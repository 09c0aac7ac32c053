package exec_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/windows-machine-config/wmco/internal/cli"
)

// newTerminal returns a terminal for a program and the end that shows what the program prints.
func newTerminal(t *testing.T) (shown, program *os.File) {
	t.Helper()
	shown, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shown.Close() })
	if err := unix.IoctlSetPointerInt(int(shown.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(shown.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return shown, program
}

// TestExecOutputIsSanitizedOnTerminal expects escape sequences in a command's output to be made safe: an attacker may have written it.
func TestExecOutputIsSanitizedOnTerminal(t *testing.T) {
	const output = "\x1b]52;c;cm0gLXJmIH4K\a\x1b]0;owned\a\u009b2Jok\x1b[32mgreen\n"
	for _, test := range []struct {
		isTerminal bool
		args       []string
		want       string
	}{
		{true, nil, `\x1b]52;c;cm0gLXJmIH4K\a\x1b]0;owned\a\u009b2Jok` + "\x1b[32mgreen\r\n\x1b[0m"}, // terminals add \r
		{true, []string{"--raw"}, strings.ReplaceAll(output, "\n", "\r\n")},
		{false, nil, output},
	} {
		c, _ := newCluster(t, terminated(0))
		handleLogs(c, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, output) })
		args := append(append([]string{"exec", "win-1", "--kubeconfig", c.Kubeconfig}, test.args...), "--", "hostname")
		var got bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &got, ErrOut: io.Discard}
		shown, program := newTerminal(t)
		if test.isTerminal {
			streams.Out = program
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if code := cli.Run(ctx, args, streams, "v1.0.0"); code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
		cancel()
		_ = program.Close()
		if test.isTerminal {
			_, _ = io.Copy(&got, shown) // ends with an error when the other end is closed
		}
		if got.String() != test.want {
			t.Errorf("%v: a terminal (%v) gets %q, want %q", test.args, test.isTerminal, got.String(), test.want)
		}
	}
}
