package acceptance

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
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
	// HashCommand reads its input to the end, prints its SHA-256 followed by as many bytes as the first argument specifies, and ends with the exit code in
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

func hashInput(outputBytes, exitCode string, in io.Reader, out io.Writer) error {
	count, err := strconv.Atoi(outputBytes)
	exit, codeErr := strconv.Atoi(exitCode)
	if err := errors.Join(err, codeErr); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%x\n", sum.Sum(nil)); err != nil {
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

func (p *pattern) Read(buffer []byte) (int, error) {
	for i := range buffer {
		buffer[i] = p.next
		p.next++
	}
	return len(buffer), nil
}

// shell is a possible login shell of a host.
type shell struct {
	name, path, option string
	// mapsCodes is set if the shell returns 1 for each exit code of a program but 0
	// (https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/about_powershell_exe, -Command).
	mapsCodes bool
}

func shells() []shell {
	return []shell{
		{name: "cmd.exe", path: system32 + "cmd.exe", option: "/c"},
		{name: "PowerShell", path: system32 + `WindowsPowerShell\v1.0\powershell.exe`, option: "-c", mapsCodes: true},
		{name: "bash", path: `C:\Program Files\Git\bin\bash.exe`, option: "-c"}, // if Git for Windows is installed
	}
}

const (
	// shellBytes is how many bytes a program gets and returns through each shell of this machine.
	shellBytes = 1 << 20
	// someCode is an exit code that is neither success nor the usual failure.
	someCode = 7
)

func tryShells(ctx context.Context, s *session) (string, error) {
	folder, err := s.folder(ctx, "shells")
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	if err := copyFile(s.Program, s.Host.Disk.Local(folder+`\`+copyName(0))); err != nil {
		return "", untriedErrorf("%w", err)
	}
	var all findings
	hasPowerShell := false
	for _, sh := range shells() {
		if !s.Host.Disk.Exists(sh.path) {
			continue
		}
		output, err := outputOf(s.inShell(ctx, sh, folder, EchoCommand+" one --two=3", nil))
		if s.Wine && len(output) == 0 {
			continue // the PowerShell of Wine does nothing
		}
		if got := strings.TrimSpace(string(output)); err != nil || got != EchoCommand+"|one|--two=3" {
			all.wrong = append(all.wrong, fmt.Sprintf("%s changed the command line to %q, %v", sh.name, got, err))
			continue
		}
		hasPowerShell = hasPowerShell || sh.mapsCodes
		x := exchange{send: shellBytes, answer: shellBytes, code: someCode}
		output, err = outputOf(s.inShell(ctx, sh, folder, x.command(), x.input()))
		arrived := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			arrived, err = exit.ExitCode(), nil
		}
		if err == nil {
			err = x.check(sh, arrived, output)
		}
		if err != nil {
			all.wrong = append(all.wrong, sh.name+": "+err.Error())
			continue
		}
		all.seen = append(all.seen, fmt.Sprintf("%s: data unchanged, and exit code %d arrives as %d", sh.name, x.code, arrived))
	}
	if !hasPowerShell && len(all.wrong) == 0 {
		return "", untriedErrorf("there is no PowerShell (tried: %s)", strings.Join(all.seen, "; "))
	}
	return all.result()
}

// inShell returns a command that runs this program's copy in a shell, as OpenSSH starts it.
func (s *session) inShell(ctx context.Context, sh shell, folder, arguments string, stdin io.Reader) *exec.Cmd {
	command := exec.CommandContext(ctx, s.Host.Disk.Local(sh.path), sh.option, `.\\`+copyName(0)+" "+arguments)
	command.Dir, command.Stdin, command.WaitDelay = s.Host.Disk.Local(folder), stdin, releaseTimeout
	return command
}

// copyName returns names of programs that the operator copies into the home folder.
func copyName(n int) string { return fmt.Sprintf("wicd-%016x.exe", n) }

// exchange is one run of HashCommand: send and answer are the bytes of its input and of its answer, code is its exit code.
type exchange struct {
	send, answer int64
	code         int
	sum          hash.Hash
}

// command returns the arguments of the program.
func (x *exchange) command() string { return fmt.Sprintf("%s %d %d", HashCommand, x.answer, x.code) }

// input returns random bytes, for one run.
func (x *exchange) input() io.Reader {
	x.sum = sha256.New()
	return io.TeeReader(io.LimitReader(rand.Reader, x.send), x.sum)
}

// check compares the exit code and output that arrived with what the program returned.
func (x *exchange) check(sh shell, arrived int, output []byte) error {
	if arrived != x.code && (!sh.mapsCodes || x.code == 0 || arrived != 1) {
		return fmt.Errorf("exit code %d arrives as %d", x.code, arrived)
	}
	var want bytes.Buffer
	fmt.Fprintf(&want, "%x\n", x.sum.Sum(nil))
	if _, err := io.CopyN(&want, &pattern{}, x.answer); err != nil {
		return err
	}
	if !bytes.Equal(want.Bytes(), output) {
		return fmt.Errorf("%d bytes of output, which begin with %.80q, differ from the %d that were expected", len(output), output, want.Len())
	}
	return nil
}

// logRunner is the program that Windows starts and that starts the kubelet.
const logRunner = "kube-log-runner"

func tryLogRunner(ctx context.Context, s *session) (string, error) {
	packed, known := s.Programs[logRunner]
	if !known {
		return "", untriedErrorf("this program was built without %s (make acceptance includes it)", logRunner)
	}
	folder, err := s.folder(ctx, "runner")
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	program, counter := s.Host.Disk.Local(folder+`\`+logRunner+".exe"), s.Host.Disk.Local(folder+`\counter`)
	if err := unpack(program, packed); err != nil {
		return "", untriedErrorf("%w", err)
	}
	runner := exec.CommandContext(ctx, program, "-log-file="+s.Host.Disk.Local(folder+`\log`), s.Program, CountCommand, counter)
	if err := runner.Start(); err != nil {
		return "", untriedErrorf("%w", err)
	}
	pid, before, err := awaitCount(counter, -1)
	killed := runner.Process.Kill()
	_ = runner.Wait() // reports that it was killed
	if err = errors.Join(err, killed); err != nil {
		return "", untriedErrorf("%w", err)
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
		return "", errors.New("it was terminated as well")
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
	return pid, count, errors.New("the child of kube-log-runner does not count")
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o700)
}
