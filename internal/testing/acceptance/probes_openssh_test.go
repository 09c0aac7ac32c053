package acceptance

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	signer, _, err := sshserver.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// runProbeCommand is a handler that runs the commands of probes without altering their data.
func runProbeCommand(_ context.Context, c sshserver.Command, stdin io.Reader, stdout, _ io.Writer) int {
	_, err := Command(strings.Fields(c.Line)[1:], stdin, stdout)
	if exit := Exit(0); errors.As(err, &exit) {
		return int(exit)
	}
	if err != nil {
		return 1
	}
	return 0
}

// newLogin returns a login to a server, and the path of the program's copy, where a different file of the same size already exists.
func newLogin(t *testing.T, sh shell, serve sshserver.Handler) (l login, file string) {
	t.Helper()
	key, home, program := newSigner(t), t.TempDir(), filepath.Join(t.TempDir(), "program")
	file = filepath.Join(home, copyName(1))
	mustWrite(t, program, "program")
	mustWrite(t, file, "another")
	server, err := sshserver.New(sshserver.Options{
		HostKeys: []ssh.Signer{newSigner(t)}, Keys: func(string) []ssh.PublicKey { return []ssh.PublicKey{key.PublicKey()} }, Home: home, Exec: serve,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(t.Context(), listener) }() // logins fail if it does
	return login{
		target:  remote.Target{Address: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, User: "Administrator", Key: key},
		program: program, name: copyName(1), shell: sh,
	}, file
}

// TestShellMisbehaviorIsReported uses servers that behave like known Windows shells.
func TestShellMisbehaviorIsReported(t *testing.T) {
	// withCode returns a handler with changed exit codes.
	withCode := func(change func(int) int) sshserver.Handler {
		return func(ctx context.Context, c sshserver.Command, in io.Reader, out, errs io.Writer) int {
			return change(runProbeCommand(ctx, c, in, out, errs))
		}
	}
	become1, become0 := withCode(func(code int) int { return min(code, 1) }), withCode(func(int) int { return 0 })
	cmdShell, powerShell := shell{name: "cmd.exe"}, shell{name: "PowerShell", mapsCodes: true}
	for name, test := range map[string]struct {
		shell shell
		serve sshserver.Handler
		wrong []string
		seen  string
	}{
		"nothing":                        {shell: cmdShell, serve: runProbeCommand, seen: "cmd.exe: a program of"},
		"exit codes of PowerShell":       {shell: powerShell, serve: become1, seen: "PowerShell: exit code 7 arrives as 1"},
		"exit codes become 1":            {shell: cmdShell, serve: become1, wrong: []string{"exit code 7 arrives as 1", "exit code 1115 arrives as 1"}},
		"failures succeed":               {shell: cmdShell, serve: become0, wrong: []string{"exit code 7 arrives as 0", "exit code 1115 arrives as 0"}},
		"failures succeed in PowerShell": {shell: powerShell, serve: become0, wrong: []string{"exit code 7 arrives as 0", "exit code 1115 arrives as 0"}},
		"success fails in PowerShell": {shell: powerShell, serve: withCode(func(code int) int { return max(code, 1) }), wrong: []string{
			"64 MB of input: exit code 0 arrives as 1", "8 MB of output: exit code 0 arrives as 1", "two programs at once: exit code 0 arrives as 1",
		}},
		"input is cut": {shell: cmdShell, serve: func(ctx context.Context, c sshserver.Command, in io.Reader, out, errs io.Writer) int {
			code := runProbeCommand(ctx, c, io.LimitReader(in, 4096), out, errs)
			_, _ = io.Copy(io.Discard, in) // ends with the lost connection
			return code
		}, wrong: []string{"64 MB of input: 65 bytes of output"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, file := newLogin(t, test.shell, test.serve)
			l.try(t.Context())
			if content, err := os.ReadFile(file); err != nil || string(content) != "program" {
				t.Errorf("the copy is %q, %v", content, err)
			}
			if seen := strings.Join(l.seen, "\n"); !strings.Contains(seen, test.seen) {
				t.Errorf("got %q, want %q", seen, test.seen)
			}
			if len(l.wrong) != len(test.wrong) {
				t.Fatalf("got %q, want %q", l.wrong, test.wrong)
			}
			for i, want := range test.wrong {
				if !strings.Contains(l.wrong[i], want) {
					t.Errorf("got %q, want %q", l.wrong[i], want)
				}
			}
		})
	}
}

func TestDefaultShellIsParsed(t *testing.T) {
	for output, want := range map[string]string{
		"\r\nHKEY_LOCAL_MACHINE\\SOFTWARE\\OpenSSH\r\n    DefaultShell    REG_SZ    C:\\Program Files\\PowerShell\\7\\pwsh.exe\r\n\r\n": `C:\Program Files\PowerShell\7\pwsh.exe`,
		"": "",
	} {
		c := newComputer(t)
		c.shell = output
		s := &session{Machine: c.machine()}
		got, err := s.shell(t.Context())
		if got != want || err != nil {
			t.Errorf("%q: %q, %v", output, got, err)
		}
		if err := (change{kindShell, got}).check(); err != nil {
			t.Error(err)
		}
	}
}
