//go:build linux

package lab

import (
	"context"
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

// A reaper is a running reaper process (see the command reaper). The lab holds its standard input open; when it is closed, the
// reaper cleans up and exits.
type reaper struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *lastLines
	ended  chan struct{}
}

// startReaper starts a reaper in new namespaces of the kinds given (CLONE_NEW*), 0 for none.
func startReaper(program string, namespaces uintptr, args ...string) (*reaper, error) {
	r := &reaper{cmd: exec.Command(program, args...), stderr: &lastLines{}, ended: make(chan struct{})}
	r.cmd.Stderr = r.stderr
	r.cmd.WaitDelay = time.Second
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setpgid: true}
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("creating the reaper's pipe: %w", err)
	}
	r.stdin = stdin
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the reaper: %w", err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	return r, nil
}

// stop ends the reaper and what it manages, and returns when both are gone.
func (r *reaper) stop() {
	_ = r.stdin.Close()
	select {
	case <-r.ended:
	case <-time.After(30 * time.Second):
		_ = r.cmd.Process.Kill()
		<-r.ended
	}
}

// send sends a command to the reaper.
func (r *reaper) send(line string) error {
	if _, err := io.WriteString(r.stdin, line+"\n"); err != nil {
		return fmt.Errorf("sending %s to the reaper: %w", line, err)
	}
	return nil
}

// failure returns why a reaper exited without being stopped, or nil while it runs.
func (r *reaper) failure() error {
	select {
	case <-r.ended:
		return errors.New(strings.TrimPrefix(r.stderr.String(), "reaper: "))
	default:
		return nil
	}
}

// lastLines is a writer that keeps only the end of the text.
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

// A Folder is a temporary folder. It ends with Remove, or with the process that created it.
type Folder struct {
	// Path is absolute.
	Path   string
	reaper *reaper
}

// NewFolder creates a folder. progress gets a line for long operations: the first time, it builds the reaper.
func NewFolder(ctx context.Context, name string, progress io.Writer) (*Folder, error) {
	program, err := build(ctx, progress, reaperProgram())
	if err != nil {
		return nil, err
	}
	return newFolder(program, name)
}

// newFolder creates a folder and a reaper, the given program, that removes it.
func newFolder(program, name string) (*Folder, error) {
	dir, err := os.MkdirTemp("", "wmco-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder: %w", err)
	}
	r, err := startReaper(program, 0, "folder", dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &Folder{Path: dir, reaper: r}, nil
}

// Remove removes the folder with its content. It may be called on nil.
func (f *Folder) Remove() {
	if f != nil {
		f.reaper.stop()
	}
}
