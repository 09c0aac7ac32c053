package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"
)

// tailSize limits how much of a command's standard error is kept, in bytes.
const tailSize = 4 << 10

// Run runs a command with stdin as its input, copies its output to stdout, and returns when it has ended; both streams may be nil. The error is an
// *ExitError if the command does not exit with status 0, and an *Error if the connection is lost. A failing Read or Write of the caller's streams
// ends the command, and its error is returned; the command never sees a failed Read as the end of its input.
//
// When ctx ends, Run sends SIGKILL to the command, closes its channel and returns the cause of ctx. Windows' sshd does not support signals: a program
// there must detect that its input or output has ended.
//
// Run does not wait for a Read of stdin that blocks when the command ends.
func (h *Host) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := h.session(ctx, func(s *ssh.Session) error {
		return execute(s, command, &input{from: stdin, fail: cancel}, &output{stdout, cancel})
	})
	if err != nil {
		return fmt.Errorf("running %s: %w", command, err)
	}
	return nil
}

func execute(s *ssh.Session, command string, in *input, out *output) error {
	var stderr tail
	s.Stdout, s.Stderr = out, &stderr
	remoteIn, err := s.StdinPipe()
	if err != nil {
		return err
	}
	if err := s.Start(command); err != nil {
		return fmt.Errorf("starting it: %w", err)
	}
	go in.sendTo(remoteIn)
	err = s.Wait()
	var exited *ssh.ExitError
	if errors.As(err, &exited) {
		return &ExitError{Status: exited.ExitStatus(), Stderr: stderr.String()}
	}
	var missing *ssh.ExitMissingError
	if errors.As(err, &missing) {
		return &ExitError{Status: -1, Stderr: stderr.String()}
	}
	return err
}

// input is the caller's stdin. fail ends the command.
type input struct {
	from   io.Reader
	fail   context.CancelCauseFunc
	failed bool
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.from.Read(p)
	if err != nil && err != io.EOF {
		in.failed = true
		in.fail(fmt.Errorf("reading its input: %w", err))
	}
	return n, err
}

// sendTo copies the input and closes w, unless reading the input failed.
func (in *input) sendTo(w io.WriteCloser) {
	if in.from != nil {
		_, _ = io.Copy(w, in) // fails if the command stops reading; its exit status explains why
	}
	if !in.failed {
		_ = w.Close()
	}
}

// output is the caller's stdout. fail ends the command.
type output struct {
	to   io.Writer
	fail context.CancelCauseFunc
}

func (out *output) Write(p []byte) (int, error) {
	if out.to == nil {
		return len(p), nil
	}
	n, err := out.to.Write(p)
	if err != nil {
		out.fail(fmt.Errorf("writing its output: %w", err))
	}
	return n, err
}

// tail keeps the end of what is written to it.
type tail struct {
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if excess := len(t.kept) - tailSize; excess > 0 {
		t.kept = append(t.kept[:0], t.kept[excess:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns the tail as valid UTF-8 without control characters, whatever code page the host uses.
func (t *tail) String() string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case unicode.IsControl(r) && r != '\n':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(t.kept), "?"))
	s = strings.TrimSpace(s)
	if t.cut {
		s = "... " + s
	}
	return s
}
