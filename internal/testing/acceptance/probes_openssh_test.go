package acceptance

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
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
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// TestShellMisbehaviorIsReported uses servers with known misbehavior of Windows shells.
func TestShellMisbehaviorIsReported(t *testing.T) {
	honest := func(_ context.Context, c sshserver.Command, stdin io.Reader, stdout, _ io.Writer) int {
		_, err := Command(strings.Fields(c.Line)[1:], stdin, stdout)
		if exit := Exit(0); errors.As(err, &exit) {
			return int(exit)
		}
		if err != nil {
			return 1
		}
		return 0
	}
	for name, test := range map[string]struct {
		serve sshserver.Handler
		wrong []string
	}{
		"cmd.exe": {honest, nil},
		"exit codes become 1": {func(ctx context.Context, c sshserver.Command, in io.Reader, out, errs io.Writer) int {
			return min(honest(ctx, c, in, out, errs), 1)
		}, []string{"exit code 7: it arrives as 1", "exit code 1115: it arrives as 1"}},
		"input is cut": {func(ctx context.Context, c sshserver.Command, in io.Reader, out, errs io.Writer) int {
			code := honest(ctx, c, io.LimitReader(in, 4096), out, errs)
			_, _ = io.Copy(io.Discard, in) // ends with the lost connection
			return code
		}, []string{"64 MB of input: 65 bytes of output"}},
	} {
		t.Run(name, func(t *testing.T) {
			key := newSigner(t)
			server, err := sshserver.New(sshserver.Options{
				HostKeys: []ssh.Signer{newSigner(t)}, Keys: func(string) []ssh.PublicKey { return []ssh.PublicKey{key.PublicKey()} }, Home: t.TempDir(), Exec: test.serve,
			})
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = server.Serve(t.Context(), listener) }() // logins fail if it does
			program := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(program, []byte("program"), 0o600); err != nil {
				t.Fatal(err)
			}
			l := login{
				target: remote.Target{Address: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, User: "Administrator", Key: key}, program: program, shell: name,
			}
			l.try(t.Context())
			if len(l.wrong) != len(test.wrong) {
				t.Fatalf("it says %q, want %q", l.wrong, test.wrong)
			}
			for i, want := range test.wrong {
				if !strings.Contains(l.wrong[i], want) {
					t.Errorf("it says %q, want %q", l.wrong[i], want)
				}
			}
		})
	}
}

func TestTheDefaultShellIsRead(t *testing.T) {
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
