//go:build linux

package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A keeper is the lab's end of a keeper process (see the command keeper): it holds the pipe whose end tells the
// process to take down what it keeps.
type keeper struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *lastLines
	ended  chan struct{}
}

// startKeeper starts a keeper in new namespaces of the kinds given (CLONE_NEW*), 0 for none.
func startKeeper(program string, namespaces uintptr, args ...string) (*keeper, error) {
	k := &keeper{cmd: exec.Command(program, args...), stderr: &lastLines{}, ended: make(chan struct{})}
	k.cmd.Stderr = k.stderr
	k.cmd.WaitDelay = time.Second
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setpgid: true}
	stdin, err := k.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making the keeper's pipe: %w", err)
	}
	k.stdin = stdin
	if err := k.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the keeper: %w", err)
	}
	go func() {
		_ = k.cmd.Wait()
		close(k.ended)
	}()
	return k, nil
}

// stop ends the keeper and what it keeps, and returns when both are gone.
func (k *keeper) stop() {
	_ = k.stdin.Close()
	select {
	case <-k.ended:
	case <-time.After(30 * time.Second):
		_ = k.cmd.Process.Kill()
		<-k.ended
	}
}

// order sends a line to the keeper.
func (k *keeper) order(line string) error {
	if _, err := io.WriteString(k.stdin, line+"\n"); err != nil {
		return fmt.Errorf("telling the keeper to %s: %w", line, err)
	}
	return nil
}

// failure says why a keeper ended that nobody stopped; nil while it runs.
func (k *keeper) failure() error {
	select {
	case <-k.ended:
		return errors.New(strings.TrimPrefix(k.stderr.String(), "keeper: "))
	default:
		return nil
	}
}

// lastLines keeps the end of what is written to it.
type lastLines struct {
	mu   sync.Mutex
	text []byte
}

const lastLinesSize = 4096

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if extra := len(l.text) - lastLinesSize; extra > 0 {
		l.text = append(l.text[:0], l.text[extra:]...)
	}
	return len(p), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}

// tail returns the last bytes of a log file, for error messages and failed tests.
func tail(path string, size int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > size {
		_, _ = f.Seek(-size, io.SeekEnd)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}
