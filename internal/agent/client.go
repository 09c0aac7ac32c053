package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Runner runs one command on the host, feeding stdin and collecting stdout, until it ends or ctx is done.
type Runner interface {
	Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error
}

// maxLine bounds one line of WICD's output.
const maxLine = 1 << 20

// Call runs a command of WICD: it sends request (nil for none), hands every step to onStep and decodes the
// result. A failure that WICD reports is an *Error; an answer that is none is a *NoAnswerError.
func Call(ctx context.Context, r Runner, command string, request, result any, onStep func(Step)) error {
	stdin, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding the request of %q: %w", command, err)
	}
	if request == nil {
		stdin = nil
	}
	return converse(ctx, r, command, bytes.NewReader(append(stdin, '\n')), &talk{result: result, onStep: onStep})
}

// Open opens the compressed bytes of a content from an offset on.
type Open func(sha256 string, offset int64) (io.ReadCloser, error)

// Send brings content into the host's store: it tells what the host must have, hears what is missing, and sends
// only that. Interrupted, it goes on at the byte where the host stopped. It returns what went over the wire.
func Send(ctx context.Context, r Runner, command string, content []Content, open Open, onStep func(Step)) (ReceiveResult, error) {
	request, err := json.Marshal(ReceiveRequest{Content: content})
	if err != nil {
		return ReceiveResult{}, fmt.Errorf("encoding the list of content: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdin, feed := io.Pipe()
	missing := make(chan []Missing, 1)
	fed := make(chan error, 1)
	go func() {
		err := feedMissing(ctx, feed, append(request, '\n'), missing, open)
		feed.CloseWithError(err) // nil closes with io.EOF
		fed <- err
	}()
	var result ReceiveResult
	err = converse(ctx, r, command, stdin, &talk{result: &result, onStep: onStep, missing: missing})
	cancel()
	stdin.CloseWithError(io.ErrClosedPipe)
	// What went wrong on this side is the better explanation, unless it is only that the other side had ended.
	if feedErr := <-fed; feedErr != nil && !errors.Is(feedErr, io.ErrClosedPipe) && !errors.Is(feedErr, context.Canceled) {
		err = feedErr
	}
	return result, err
}

// feedMissing writes the request, waits for the host's list, and writes what is on it.
func feedMissing(ctx context.Context, w io.Writer, request []byte, missing <-chan []Missing, open Open) error {
	if _, err := w.Write(request); err != nil {
		return err
	}
	var list []Missing
	select {
	case <-ctx.Done():
		return ctx.Err()
	case list = <-missing:
	}
	for _, m := range list {
		if err := feedOne(w, m, open); err != nil {
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

// talk is one conversation: where its messages go, and how it ended.
type talk struct {
	result  any
	onStep  func(Step)
	missing chan<- []Missing

	done  bool
	err   error
	stray []byte // the beginning of output that is not WICD's
}

// converse runs the command and reads its lines while it runs.
func converse(ctx context.Context, r Runner, command string, stdin io.Reader, t *talk) error {
	stdout, lines := io.Pipe()
	read := make(chan struct{})
	go func() {
		t.read(stdout)
		_, _ = io.Copy(io.Discard, stdout)
		close(read)
	}()
	runErr := r.Run(ctx, command, stdin, lines)
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

// read takes WICD's lines until the conversation ended, or until a line that is too long.
func (t *talk) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		t.take(lines.Bytes())
	}
}

func (t *talk) take(b []byte) {
	var l line
	if json.Unmarshal(b, &l) != nil {
		if len(t.stray) < 300 {
			t.stray = append(append(t.stray, b[:min(len(b), 300)]...), '\n')
		}
		return
	}
	switch {
	case l.Step != nil && t.onStep != nil:
		t.onStep(*l.Step)
	case l.Missing != nil && t.missing != nil:
		t.missing <- *l.Missing
		t.missing = nil
	case l.Error != nil:
		t.err = l.Error
	case l.Result != nil:
		t.done = true
		if t.result != nil {
			t.err = json.Unmarshal(l.Result, t.result)
		}
	}
}

// Failed returns what WICD reported, or nil when err is no failure of WICD's.
func Failed(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
}
