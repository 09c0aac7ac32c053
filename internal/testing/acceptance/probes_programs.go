package acceptance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Commands that probes run with this program.
const (
	// EchoCommand prints its arguments.
	EchoCommand = "echo"
	// CountCommand counts in a file until it is killed or half a minute has passed.
	CountCommand = "count"
	// HashCommand reads its input to the end, prints its SHA-256 followed by as many bytes as the first argument says, and ends with the exit code in
	// the second argument.
	HashCommand = "hash"
)

// Exit is the error of a command that ends with an exit code.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Command runs a command of a probe. known is false for other arguments.
func Command(args []string, in io.Reader, out io.Writer) (known bool, err error) {
	switch {
	case len(args) > 0 && args[0] == EchoCommand:
		_, err = fmt.Fprintln(out, strings.Join(args, "|"))
		return true, err
	case len(args) == 3 && args[0] == HashCommand:
		return true, hashInput(args[1], args[2], in, out)
	case len(args) == 2 && args[0] == CountCommand:
		for n := range 300 {
			if err := os.WriteFile(args[1], []byte(fmt.Sprint(os.Getpid(), " ", n)), 0o600); err != nil {
				return true, err
			}
			time.Sleep(100 * time.Millisecond)
		}
		return true, nil
	}
	return false, nil
}

func hashInput(more, code string, in io.Reader, out io.Writer) error {
	count, err := strconv.Atoi(more)
	exit, codeErr := strconv.Atoi(code)
	if err := errors.Join(err, codeErr); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, in); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%x\n", hash.Sum(nil)); err != nil {
		return err
	}
	if _, err := io.CopyN(out, &pattern{}, int64(count)); err != nil {
		return err
	}
	if exit != 0 {
		return Exit(exit)
	}
	return nil
}

// pattern is an endless text of all bytes, including those that shells change.
type pattern struct{ next byte }

func (p *pattern) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = p.next
		p.next++
	}
	return len(into), nil
}

// shell is a possible login shell of a host.
type shell struct{ name, path, option string }

func shells() []shell {
	return []shell{
		{"cmd.exe", system32 + "cmd.exe", "/c"},
		{"PowerShell", system32 + `WindowsPowerShell\v1.0\powershell.exe`, "-c"},
		{"bash", `C:\Program Files\Git\bin\bash.exe`, "-c"}, // if Git for Windows is installed
	}
}

func tryShells(ctx context.Context, s *session) (string, error) {
	folder, err := s.folder(ctx, "shells")
	if err != nil {
		return "", untriedf("%w", err)
	}
	const name = "wicd-0123456789abcdef.exe"
	if err := copyFile(s.Program, s.Host.Disk.Local(folder+`\`+name)); err != nil {
		return "", untriedf("%w", err)
	}
	var tried []string
	for _, sh := range shells() {
		if !s.Host.Disk.Exists(sh.path) {
			continue
		}
		command := exec.CommandContext(ctx, s.Host.Disk.Local(sh.path), sh.option, `.\\`+name+" "+EchoCommand+" one --two=3")
		command.Dir = s.Host.Disk.Local(folder)
		output, err := outputOf(command)
		if s.Wine && len(output) == 0 {
			continue // the PowerShell of Wine does nothing
		}
		if got := strings.TrimSpace(string(output)); err != nil || got != EchoCommand+"|one|--two=3" {
			return "", errors.Join(err, fmt.Errorf("%s makes of it %q", sh.name, got))
		}
		tried = append(tried, sh.name)
	}
	if !slices.Contains(tried, "PowerShell") {
		return "", untriedf("there is no PowerShell (tried: %s)", strings.Join(tried, ", "))
	}
	return "tried: " + strings.Join(tried, ", "), nil
}

// logRunner is the program that Windows starts and that starts the kubelet.
const logRunner = "kube-log-runner"

func tryLogRunner(ctx context.Context, s *session) (string, error) {
	packed, known := s.Programs[logRunner]
	if !known {
		return "", untriedf("this program was built without %s (make acceptance builds it with it)", logRunner)
	}
	folder, err := s.folder(ctx, "runner")
	if err != nil {
		return "", untriedf("%w", err)
	}
	program, counter := s.Host.Disk.Local(folder+`\`+logRunner+".exe"), s.Host.Disk.Local(folder+`\counter`)
	if err := unpack(program, packed); err != nil {
		return "", untriedf("%w", err)
	}
	runner := exec.CommandContext(ctx, program, "-log-file="+s.Host.Disk.Local(folder+`\log`), s.Program, CountCommand, counter)
	if err := runner.Start(); err != nil {
		return "", untriedf("%w", err)
	}
	pid, before, err := awaitCount(counter, -1)
	killed := runner.Process.Kill()
	_ = runner.Wait() // reports that it was killed
	if err = errors.Join(err, killed); err != nil {
		return "", untriedf("%w", err)
	}
	time.Sleep(time.Second)
	_, after, err := awaitCount(counter, before)
	if err == nil {
		_, after, err = awaitCount(counter, after) // still counting long after
	}
	if child, finding := os.FindProcess(pid); finding == nil {
		_ = child.Kill() // already gone if it ended, too
		_, _ = child.Wait()
	}
	if err != nil {
		return "", errors.New("it ended, too")
	}
	return fmt.Sprintf("it counted from %d to %d", before, after), nil
}

// awaitCount waits until a program has counted beyond a number.
func awaitCount(file string, beyond int) (pid, count int, err error) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		first, second, _ := bytes.Cut(content, []byte(" "))
		pid, _ = strconv.Atoi(string(first))
		if count, err = strconv.Atoi(string(second)); err == nil && count > beyond {
			return pid, count, nil
		}
	}
	return pid, count, errors.New("the program below kube-log-runner does not count")
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o700)
}
