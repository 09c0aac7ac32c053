package acceptance

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/operator/remote"
)

const (
	// sentBytes and answeredBytes are roughly the most that a join sends and receives.
	sentBytes     = 64 << 20
	answeredBytes = 8 << 20
	// broughtName is a name of programs that the operator copies into the home folder.
	broughtName = "wicd-0123456789abcdef.exe"
	openSSHKey  = `HKLM\SOFTWARE\OpenSSH`
	shellValue  = "DefaultShell"
	// shutdownRunning is the exit code 1115 of shutdown.exe, ERROR_SHUTDOWN_IN_PROGRESS.
	shutdownRunning = 1115
)

// loginShells returns the shells that OpenSSH may start; the first one is its default.
func loginShells() []shell {
	return []shell{
		{name: "cmd.exe"},
		{name: "PowerShell", path: system32 + `WindowsPowerShell\v1.0\powershell.exe`},
		{name: "PowerShell 7", path: `C:\Program Files\PowerShell\7\pwsh.exe`},
	}
}

// tryOpenSSH logs in to the SSH server of Windows as the operator does.
func tryOpenSSH(ctx context.Context, s *session) (string, error) {
	if !s.Host.Disk.Exists(sshFolder) {
		return "", untriedf("OpenSSH's server is not installed")
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", untriedf("%w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return "", untriedf("%w", err)
	}
	if err := s.authorize(ctx, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))+" wmco-acceptance"); err != nil {
		return "", untriedf("%w", err)
	}
	former, err := s.shell(ctx)
	if err != nil {
		return "", untriedf("%w", err)
	}
	if err := s.change(change{Kind: kindBrought}, func() error { return nil }); err != nil {
		return "", untriedf("%w", err)
	}
	target := remote.Target{Address: "127.0.0.1", User: s.user, Key: signer}
	var all findings
	for _, sh := range loginShells() {
		if sh.path != "" && !s.Host.Disk.Exists(sh.path) {
			continue
		}
		if err := s.change(change{kindShell, former}, func() error { return s.setShell(ctx, sh.path) }); err != nil {
			return "", untriedf("%w", err)
		}
		l := login{target: target, program: s.Program, shell: sh.name}
		l.try(ctx)
		all.seen, all.wrong = append(all.seen, l.seen...), append(all.wrong, l.wrong...)
	}
	return all.result()
}

// login is one login with one shell, and what it found.
type login struct {
	target         remote.Target
	program, shell string
	findings
}

func (l *login) check(what string, err error) {
	if err != nil {
		l.wrong = append(l.wrong, fmt.Sprintf("%s: %s: %v", l.shell, what, err))
	}
}

func (l *login) try(ctx context.Context) {
	h, err := remote.Dial(ctx, l.target, remote.Options{})
	if err != nil {
		l.check("logging in", err)
		return
	}
	defer h.Close()
	began := time.Now()
	if err := l.bring(ctx, h); err != nil {
		l.check("copying a program by SFTP", err)
		return
	}
	l.seen = append(l.seen, fmt.Sprintf("%s: the program was copied after %.1f s", l.shell, time.Since(began).Seconds()))
	began = time.Now()
	l.check(fmt.Sprintf("%d MB of input", sentBytes>>20), exchange(ctx, h, sentBytes, 0, 0))
	l.seen = append(l.seen, fmt.Sprintf("%s: %d MB of input took %.1f s", l.shell, sentBytes>>20, time.Since(began).Seconds()))
	l.check(fmt.Sprintf("%d MB of output", answeredBytes>>20), exchange(ctx, h, 1<<10, answeredBytes, 0))
	for _, code := range []int{7, shutdownRunning} {
		l.check(fmt.Sprintf("exit code %d", code), exchange(ctx, h, 1<<10, 0, code))
	}
	l.check("a lost connection", l.lose(ctx))
}

func (l *login) bring(ctx context.Context, h *remote.Host) error {
	f, err := os.Open(l.program)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return h.Put(ctx, broughtName, f, info.Size())
}

// exchange sends random bytes to the program, and verifies its output and exit code.
func exchange(ctx context.Context, h *remote.Host, send, answer int64, code int) error {
	hash := sha256.New()
	var output bytes.Buffer
	command := fmt.Sprintf(`.\\%s %s %d %d`, broughtName, HashCommand, answer, code)
	err := h.Run(ctx, command, io.TeeReader(io.LimitReader(rand.Reader, send), hash), &output)
	var exit *remote.ExitError
	switch {
	case code != 0 && errors.As(err, &exit) && exit.Status != code:
		return fmt.Errorf("it arrives as %d", exit.Status)
	case code != 0 && exit == nil:
		return errors.Join(err, errors.New("it does not arrive"))
	case code == 0 && err != nil:
		return err
	}
	var want bytes.Buffer
	fmt.Fprintf(&want, "%x\n", hash.Sum(nil))
	if _, err := io.CopyN(&want, &pattern{}, answer); err != nil {
		return err
	}
	if !bytes.Equal(want.Bytes(), output.Bytes()) {
		return fmt.Errorf("%d bytes of output, which begin with %.80q, differ from the %d that were expected", output.Len(), output.Bytes(), want.Len())
	}
	return nil
}

// lose closes the connection while a program reads its input. Afterwards the server must accept another login.
func (l *login) lose(ctx context.Context) error {
	h, err := remote.Dial(ctx, l.target, remote.Options{})
	if err != nil {
		return err
	}
	time.AfterFunc(2*time.Second, func() { _ = h.Close() })
	endless := io.LimitReader(rand.Reader, 1<<40)
	if err := h.Run(ctx, `.\\`+broughtName+" "+HashCommand+" 0 0", endless, io.Discard); err == nil {
		return errors.New("the program ended without an error")
	}
	again, err := remote.Dial(ctx, l.target, remote.Options{})
	if err != nil {
		return err
	}
	return again.Close()
}

// shell returns the default shell of OpenSSH; empty if none is set.
func (s *session) shell(ctx context.Context) (string, error) {
	output, code, err := s.run(ctx, "reg.exe query "+openSSHKey+" /v "+shellValue)
	if err != nil || code != 0 {
		return "", err // the value does not exist
	}
	m := regexp.MustCompile(shellValue + `\s+REG_(?:EXPAND_)?SZ\s+(.+)`).FindStringSubmatch(output)
	if m == nil {
		return "", fmt.Errorf("the default shell of OpenSSH cannot be read: %.200q", output)
	}
	return strings.TrimSpace(m[1]), nil
}

// setShell sets the default shell of OpenSSH, or removes the setting if path is empty.
func (s *session) setShell(ctx context.Context, path string) error {
	arguments := []string{"add", openSSHKey, "/v", shellValue, "/t", "REG_SZ", "/d", path, "/f"}
	if path == "" {
		if current, err := s.shell(ctx); err != nil || current == "" {
			return err
		}
		arguments = []string{"delete", openSSHKey, "/v", shellValue, "/f"}
	}
	output, err := outputOf(exec.CommandContext(ctx, s.Host.Disk.Local(system32+"reg.exe"), arguments...)) // the path may contain spaces
	if err != nil {
		return fmt.Errorf("setting the default shell of OpenSSH: %w: %s", err, tail(output))
	}
	return nil
}
