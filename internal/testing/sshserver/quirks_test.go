package sshserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestCommandsHaveShellQuirks(t *testing.T) {
	const input = "0123456789"
	exit := func(code int) Handler {
		return func(_ context.Context, _ Command, stdin io.Reader, stdout, _ io.Writer) int {
			_, _ = io.Copy(stdout, stdin)
			return code
		}
	}
	head := func(_ context.Context, _ Command, stdin io.Reader, stdout, _ io.Writer) int {
		_, _ = io.CopyN(stdout, stdin, 4)
		go func() { _, _ = io.Copy(stdout, stdin) }() // the input that has stalled does not delay the end
		return 3
	}
	readOnce := func(_ context.Context, _ Command, stdin io.Reader, stdout, _ io.Writer) int {
		n, _ := stdin.Read(make([]byte, len(input)))
		fmt.Fprint(stdout, n)
		return 0
	}
	for name, test := range map[string]struct {
		quirks Quirks
		run    Handler
		want   string
		code   int
	}{
		"none":         {Quirks{}, exit(7), input, 7},
		"input ends":   {Quirks{StdinEnds: 4}, exit(0), "0123", 0},
		"input stalls": {Quirks{StdinStalls: 4}, head, "0123", 3},
		"blocks":       {Quirks{StdinBlocks: 3}, readOnce, "3", 0},
		"all blocks":   {Quirks{StdinBlocks: 3}, exit(0), input, 0},
		"PowerShell":   {Quirks{PowerShell: true}, exit(7), input, 1},
		"success":      {Quirks{PowerShell: true}, exit(0), input, 0},
		"a profile":    {Quirks{Profile: "Welcome\r\n"}, exit(0), "Welcome\r\n" + input, 0},
		"a version":    {Quirks{Version: "SSH-2.0-OpenSSH_for_Windows_7.7"}, exit(0), input, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, func(o *Options) {
				o.Exec, o.Quirks = WithQuirks(test.run), func() Quirks { return test.quirks }
			}).client(t)
			s := session(t, c)
			s.Stdin = strings.NewReader(input)
			out, err := s.Output("command")
			var exit *ssh.ExitError
			code := 0
			if errors.As(err, &exit) {
				code = exit.ExitStatus()
			}
			if string(out) != test.want || code != test.code {
				t.Errorf("got %q and %v; want %q and exit status %d", out, err, test.want, test.code)
			}
			if v := string(c.ServerVersion()); test.quirks.Version != "" && v != test.quirks.Version {
				t.Errorf("the server identifies itself as %s", v)
			}
		})
	}
}
