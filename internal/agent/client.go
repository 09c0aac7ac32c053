package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Runner runs one command on the host, feeding stdin and collecting stdout, until it ends or ctx is done.
type Runner interface {
	Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error
}

const (
	// lingers is how long a command may take to end once it has said its result.
	lingers = 10 * time.Second
)

var (
	errOver    = errors.New("the conversation is over")
	errTooMuch = fmt.Errorf("the host wrote more than %d MiB, or a line of more than %d KiB or %d values", maxAnswer>>20, maxLine>>10, maxValues)
)

// Call runs a command of WICD: it sends request (nil for none), hands every step to onStep and decodes the
// result. A failure that WICD reports is an *Error; an answer that is none is a *NoAnswerError.
func Call(ctx context.Context, r Runner, command string, request, result any, onStep func(Step)) error {
	if request == nil {
		return converse(ctx, r, command, nil, &talk{result: result, onStep: onStep})
	}
	stdin, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding the request of %q: %w", command, err)
	}
	return converse(ctx, r, command, bytes.NewReader(append(stdin, '\n')), &talk{result: result, onStep: onStep})
}

// Open opens the compressed bytes of a content from an offset on.
type Open func(sha256 string, offset int64) (io.ReadCloser, error)

// Send brings content into the host's store: it tells what the host must have, hears what is missing, and sends
// only that. Interrupted, it goes on at the byte where the host stopped. It returns what went over the wire. A host that makes the
// transfer wait for too long is ErrTooSlow.
func Send(ctx context.Context, r Runner, command string, content []Content, open Open, onStep func(Step)) (ReceiveResult, error) {
	request, err := json.Marshal(ReceiveRequest{Content: content})
	if err != nil {
		return ReceiveResult{}, fmt.Errorf("encoding the list of content: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdin, feed := io.Pipe()
	host := &patience{to: feed, end: cancel}
	missing := make(chan []Missing, 1)
	fed := make(chan error, 1)
	offered := map[string]int64{}
	for _, c := range content {
		offered[c.SHA256] = c.CompressedSize
	}
	go func() {
		err := feedMissing(ctx, host, append(request, '\n'), missing, offered, open)
		feed.CloseWithError(err) // nil closes with io.EOF
		fed <- err
		if err == nil {
			context.AfterFunc(ctx, host.works("unpacked the content"))
		}
	}()
	var result ReceiveResult
	err = converse(ctx, r, command, stdin, &talk{result: &result, onStep: onStep, missing: missing})
	cancel(nil)
	stdin.CloseWithError(io.ErrClosedPipe)
	// What went wrong on this side is the better explanation, unless it is only that the other side had ended.
	if feedErr := <-fed; feedErr != nil && !errors.Is(feedErr, io.ErrClosedPipe) && !errors.Is(feedErr, context.Canceled) {
		err = feedErr
	}
	return result, err
}

// feedMissing writes the request, waits for the host's list, and writes what is on it: each content that was offered, with its compressed
// size, at most once.
func feedMissing(ctx context.Context, host *patience, request []byte, missing <-chan []Missing, offered map[string]int64, open Open) error {
	if _, err := host.Write(request); err != nil {
		return err
	}
	looked := host.works("said what is missing")
	var list []Missing
	select {
	case <-ctx.Done():
		looked()
		return ctx.Err()
	case list = <-missing:
		looked()
	}
	for _, m := range list {
		size, isOffered := offered[m.SHA256]
		if !isOffered || m.Offset < 0 || m.Offset > size {
			return fmt.Errorf("the host asks for content %q from byte %d; content that was offered is sent once, from a byte within it", shorten.Text(m.SHA256, shorten.Reported), m.Offset)
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

// talk is one conversation: where its messages go, and how it ended.
type talk struct {
	result  any
	onStep  func(Step)
	missing chan<- []Missing

	done  bool
	err   error
	stray []byte // the beginning of output that is not WICD's
}

// converse runs the command and reads its lines while it runs, up to its result. A command that says more than there is to say ends by that.
func converse(ctx context.Context, r Runner, command string, stdin io.Reader, t *talk) error {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stdout, lines := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		reason := t.read(stdout)
		if errors.Is(reason, errOver) {
			time.AfterFunc(lingers, func() { stop(reason) })
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

// read takes WICD's lines until the conversation is over, or until there are more than there may be; it says which.
func (t *talk) read(r io.Reader) (reason error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxAnswer))
	lines.Buffer(make([]byte, 4<<10), maxLine)
	for lines.Scan() {
		if hasTooManyValues(lines.Bytes()) {
			return errTooMuch
		}
		if t.take(lines.Bytes()); t.done || t.err != nil {
			return errOver
		}
	}
	return errTooMuch
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
		l.Step.Name = shorten.Text(l.Step.Name, shorten.Reported)
		t.onStep(*l.Step)
	case l.Missing != nil && t.missing != nil:
		t.missing <- *l.Missing
		t.missing = nil
	case l.Error != nil:
		t.err = &Error{Code: Code(shorten.Text(string(l.Error.Code), shorten.Reported)), Message: shorten.Text(l.Error.Message, shorten.Reported)}
	case l.Result != nil:
		t.done = true
		if t.result != nil {
			t.err = decode(l.Result, t.result)
		}
	}
}

// Failed returns what WICD reported, or nil when err is no failure of WICD's.
func Failed(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
}
