package wicdapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Runner runs a command on the host with the given stdin and stdout, until it ends or ctx is done.
type Runner interface {
	Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error
}

const (
	// exitTimeout is how long a command may keep running after its result.
	exitTimeout = 10 * time.Second
)

var (
	errResultReceived = errors.New("the command has returned its result")
	errTooMuch        = fmt.Errorf("the host wrote more than %d MiB, or a line of more than %d KiB or %d values", maxAnswer>>20, maxLine>>10, maxValues)
)

// Call runs a command of WICD: it sends request (nil for none), passes every step to onStep and decodes the result. A failure that WICD
// reports is an *Error; output without an answer is a *NoAnswerError.
func Call(ctx context.Context, r Runner, command string, request, result any, onStep func(Step)) error {
	if request == nil {
		return runExchange(ctx, r, command, nil, &exchange{result: result, onStep: onStep})
	}
	stdin, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding the request of %q: %w", command, err)
	}
	return runExchange(ctx, r, command, bytes.NewReader(append(stdin, '\n')), &exchange{result: result, onStep: onStep})
}

// Open opens the compressed bytes of a piece of content at an offset.
type Open func(sha256 string, offset int64) (io.ReadCloser, error)

// Send transfers content into the host's store: it sends the list, receives what is missing, and sends only that. After an interruption, it
// resumes at the byte where the host stopped. It returns what was transferred. The error is ErrTooSlow if the host blocks the transfer for
// too long.
func Send(ctx context.Context, r Runner, command string, content []Content, open Open, onStep func(Step)) (ReceiveResult, error) {
	request, err := json.Marshal(ReceiveRequest{Content: content})
	if err != nil {
		return ReceiveResult{}, fmt.Errorf("encoding the list of content: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdin, feed := io.Pipe()
	host := &progressGuard{to: feed, end: cancel}
	missing := make(chan []Missing, 1)
	feedErrs := make(chan error, 1)
	offered := map[string]int64{}
	for _, c := range content {
		offered[c.SHA256] = c.CompressedSize
	}
	go func() {
		err := feedMissing(ctx, host, append(request, '\n'), missing, offered, open)
		feed.CloseWithError(err) // nil closes with io.EOF
		feedErrs <- err
		if err == nil {
			context.AfterFunc(ctx, host.limitWork("unpacked the content"))
		}
	}()
	var result ReceiveResult
	err = runExchange(ctx, r, command, stdin, &exchange{result: &result, onStep: onStep, missing: missing})
	cancel(nil)
	stdin.CloseWithError(io.ErrClosedPipe)
	// An error on this side explains more, unless it only results from the end of the other side.
	if feedErr := <-feedErrs; feedErr != nil && !errors.Is(feedErr, io.ErrClosedPipe) && !errors.Is(feedErr, context.Canceled) {
		err = feedErr
	}
	return result, err
}

// feedMissing writes the request, waits for the host's list, and writes the contents on it. Each must have been offered, and is sent at most
// once, from an offset within its compressed size.
func feedMissing(ctx context.Context, host *progressGuard, request []byte, missing <-chan []Missing, offered map[string]int64, open Open) error {
	if _, err := host.Write(request); err != nil {
		return err
	}
	done := host.limitWork("reported what is missing")
	var list []Missing
	select {
	case <-ctx.Done():
		done()
		return ctx.Err()
	case list = <-missing:
		done()
	}
	for _, m := range list {
		size, isOffered := offered[m.SHA256]
		if !isOffered || m.Offset < 0 || m.Offset > size {
			return fmt.Errorf("the host requested content %q from byte %d; each offered content is sent once, from an offset within it", truncate.Text(m.SHA256, truncate.Reported), m.Offset)
		}
		delete(offered, m.SHA256)
		if err := feedOne(host, m, open); err != nil {
			return fmt.Errorf("sending content %.12s from byte %d: %w", m.SHA256, m.Offset, err)
		}
	}
	return nil
}

func feedOne(w io.Writer, m Missing, open Open) error {
	r, err := open(m.SHA256, m.Offset)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.CopyBuffer(w, r, make([]byte, 256<<10))
	return err
}

// exchange is the state of one command: the receivers of its messages, and its result.
type exchange struct {
	result  any
	onStep  func(Step)
	missing chan<- []Missing

	done  bool
	err   error
	stray []byte // the beginning of output that is not WICD's
}

// runExchange runs the command and reads its output until the result. It stops a command that writes more than the limits.
func runExchange(ctx context.Context, r Runner, command string, stdin io.Reader, t *exchange) error {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stdout, lines := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		reason := t.read(stdout)
		if errors.Is(reason, errResultReceived) {
			time.AfterFunc(exitTimeout, func() { stop(reason) })
		} else {
			stop(reason)
		}
		stdout.CloseWithError(reason)
	}()
	runErr := r.Run(running, command, stdin, lines)
	lines.Close()
	<-read
	switch {
	case t.err != nil:
		return t.err
	case t.done:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return &NoAnswerError{Command: command, Output: string(bytes.TrimSpace(t.stray)), Err: runErr}
	}
}

// read reads WICD's lines until the result, or until a limit is exceeded; it returns which.
func (t *exchange) read(r io.Reader) (reason error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxAnswer))
	lines.Buffer(make([]byte, 4<<10), maxLine)
	for lines.Scan() {
		if hasTooManyValues(lines.Bytes()) {
			return errTooMuch
		}
		if t.handleLine(lines.Bytes()); t.done || t.err != nil {
			return errResultReceived
		}
	}
	return errTooMuch
}

func (t *exchange) handleLine(b []byte) {
	var l line
	if json.Unmarshal(b, &l) != nil {
		if len(t.stray) < 300 {
			t.stray = append(append(t.stray, b[:min(len(b), 300)]...), '\n')
		}
		return
	}
	switch {
	case l.Step != nil && t.onStep != nil:
		l.Step.Name = truncate.Text(l.Step.Name, truncate.Reported)
		t.onStep(*l.Step)
	case l.Missing != nil && t.missing != nil:
		t.missing <- *l.Missing
		t.missing = nil
	case l.Error != nil:
		t.err = &Error{Code: Code(truncate.Text(string(l.Error.Code), truncate.Reported)), Message: truncate.Text(l.Error.Message, truncate.Reported)}
	case l.Result != nil:
		t.done = true
		if t.result != nil {
			t.err = decode(l.Result, t.result)
		}
	}
}

// Failed returns the failure that WICD reported, or nil if err has none.
func Failed(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}
