package acceptance

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
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
	openSSHKey    = `HKLM\SOFTWARE\OpenSSH`
	shellValue    = "DefaultShell"
	// shutdownRunning is the exit code 1115 of shutdown.exe, ERROR_SHUTDOWN_IN_PROGRESS.
	shutdownRunning = 1115
)

// loginShells returns the shells that OpenSSH may start; the first one is its default.
func loginShells() []shell {
	return []shell{
		{name: "cmd.exe"},
		{name: "PowerShell", path: system32 + `WindowsPowerShell\v1.0\powershell.exe`, mapsCodes: true},
		{name: "PowerShell 7", path: `C:\Program Files\PowerShell\7\pwsh.exe`, mapsCodes: true},
		{name: "bash", path: `C:\Program Files\Git\bin\bash.exe`},
	}
}

// tryOpenSSH logs in to the SSH server of Windows as the operator does.
func tryOpenSSH(ctx context.Context, s *session) (string, error) {
	if !s.Host.Disk.Exists(sshFolder) {
		return "", untriedErrorf("OpenSSH's server is not installed")
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	if err := s.authorize(ctx, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))+" wmco-acceptance"); err != nil {
		return "", untriedErrorf("%w", err)
	}
	former, err := s.shell(ctx)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	if err := s.change(change{Kind: kindPrograms}, func() error { return nil }); err != nil {
		return "", untriedErrorf("%w", err)
	}
	target := remote.Target{Address: "127.0.0.1", User: s.user, Key: signer}
	var all findings
	for i, sh := range loginShells() {
		if sh.path != "" && !s.Host.Disk.Exists(sh.path) {
			continue
		}
		if err := s.change(change{kindShell, former}, func() error { return s.setShell(ctx, sh.path) }); err != nil {
			return "", untriedErrorf("%w", err)
		}
		l := login{target: target, program: s.Program, shell: sh, name: copyName(i)}
		l.try(ctx)
		all.seen, all.wrong = append(all.seen, l.seen...), append(all.wrong, l.wrong...)
	}
	return all.result()
}

// login is one login with one shell, with its findings.
type login struct {
	target remote.Target
	// program is the local path of this program, name that of its copy. A program of an earlier login may still run.
	program, name string
	shell         shell
	findings
}

func (l *login) check(operation string, err error) {
	if err != nil {
		l.wrong = append(l.wrong, fmt.Sprintf("%s: %s: %v", l.shell.name, operation, err))
	}
}

func (l *login) try(ctx context.Context) {
	h, err := remote.Dial(ctx, l.target, remote.Options{})
	if err != nil {
		l.check("logging in", err)
		return
	}
	defer h.Close()
	if err := l.copyProgram(ctx, h); err != nil {
		l.check("copying a program by SFTP", err)
		return
	}
	began := time.Now()
	l.check(fmt.Sprintf("%d MB of input", sentBytes>>20), l.exchange(ctx, h, exchange{send: sentBytes}))
	l.note("%d MB of input took %.1f s", sentBytes>>20, time.Since(began).Seconds())
	l.check(fmt.Sprintf("%d MB of output", answeredBytes>>20), l.exchange(ctx, h, exchange{send: 1 << 10, answer: answeredBytes}))
	for _, code := range []int{someCode, shutdownRunning} {
		l.check(fmt.Sprintf("exit code %d", code), l.exchange(ctx, h, exchange{send: 1 << 10, code: code}))
	}
	l.check("two programs at once", l.runTwo(ctx, h))
	l.check("a lost connection", l.dropConnection(ctx))
}

func (l *login) note(format string, values ...any) {
	l.seen = append(l.seen, l.shell.name+": "+fmt.Sprintf(format, values...))
}

// copyProgram copies the program over an existing empty file.
func (l *login) copyProgram(ctx context.Context, h *remote.Host) error {
	f, err := os.Open(l.program)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := h.Put(ctx, l.name, strings.NewReader(""), 0); err != nil {
		return err
	}
	began := time.Now()
	if err := h.Put(ctx, l.name, f, info.Size()); err != nil {
		return err
	}
	l.note("a program of %.1f MB replaced an empty file after %.1f s", float64(info.Size())/(1<<20), time.Since(began).Seconds())
	return nil
}

// exchange runs the program and checks its exit code and output.
func (l *login) exchange(ctx context.Context, h *remote.Host, x exchange) error {
	var output bytes.Buffer
	err := h.Run(ctx, `.\\`+l.name+" "+x.command(), x.input(), &output)
	got := 0
	if exit := (*remote.ExitError)(nil); errors.As(err, &exit) {
		got, err = exit.Status, nil
	}
	if err != nil {
		return err
	}
	if err := x.check(l.shell, got, output.Bytes()); err != nil {
		return err
	}
	if got != x.code {
		l.note("exit code %d arrives as %d", x.code, got)
	}
	return nil
}

// runTwo runs the program while another one waits for its input, as the operator does if a shell does not pass on input.
func (l *login) runTwo(ctx context.Context, h *remote.Host) error {
	waiting := exchange{}
	in, end := io.Pipe()
	first := make(chan error, 1)
	go func() { first <- h.Run(ctx, `.\\`+l.name+" "+waiting.command(), in, io.Discard) }()
	second := l.exchange(ctx, h, exchange{send: 1 << 10})
	return errors.Join(second, end.Close(), <-first)
}

// dropConnection closes the connection while a program reads its input. Afterwards the server must accept another login.
func (l *login) dropConnection(ctx context.Context) error {
	h, err := remote.Dial(ctx, l.target, remote.Options{})
	if err != nil {
		return err
	}
	time.AfterFunc(2*time.Second, func() { _ = h.Close() })
	endless := io.LimitReader(rand.Reader, 1<<40)
	if err := h.Run(ctx, `.\\`+l.name+" "+HashCommand+" 0 0", endless, io.Discard); err == nil {
		return errors.New("the program ended without an error")
	}
	next, err := remote.Dial(ctx, l.target, remote.Options{})
	if err != nil {
		return err
	}
	return next.Close()
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
