package logs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// Limits of reading one log.
const (
	firstRead = 64 << 10
	maxTail   = 64 << 20
	// maxLine is how many bytes of a line are buffered; longer lines are split.
	maxLine = 1 << 20
)

type stream struct {
	client     *nodefiles.Client
	node, file string
	// tail is how many of the existing lines are shown; negative: all. since is the time of the first line; zero: any.
	tail  int
	since time.Time
	// timeout bounds each request.
	timeout time.Duration
	// show prints a line without its line break.
	show func(line string) error

	// next is the offset of the next byte to read; half is the beginning of an incomplete line.
	next int64
	half string
}

func (s *stream) print(ctx context.Context) error {
	if s.tail < 0 && s.since.IsZero() {
		part, err := s.client.From(ctx, s.node, s.file, 0)
		if err != nil {
			return err
		}
		return s.copy(part)
	}
	for size := int64(firstRead); ; size *= 4 {
		text, part, err := s.read(ctx, size)
		if err != nil {
			return err
		}
		lines := strings.SplitAfter(text, "\n")
		s.half = lines[len(lines)-1]
		lines, whole := lines[:len(lines)-1], part.From == 0
		if !whole && len(lines) > 0 {
			lines = lines[1:] // the first line is incomplete
		}
		shown, enough := s.choose(lines, part.Modified)
		if !enough && !whole && size < maxTail {
			continue
		}
		s.next = part.From + int64(len(text))
		for _, line := range shown {
			if err := s.show(strings.TrimRight(line, "\r\n")); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *stream) read(ctx context.Context, size int64) (string, *nodefiles.Part, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	part, err := s.client.Tail(ctx, s.node, s.file, size)
	if err != nil {
		return "", nil, err
	}
	defer part.Body.Close()
	b, err := io.ReadAll(io.LimitReader(part.Body, size))
	if err != nil {
		return "", nil, session.Explain(err, "reading log "+s.file+" of node "+s.node)
	}
	return string(b), part, nil
}

// choose returns the lines to show. enough is false if lines before the first of them may be needed, too.
func (s *stream) choose(lines []string, modified time.Time) (shown []string, enough bool) {
	first := 0
	if !s.since.IsZero() {
		times := stamps{now: time.Now()}
		if len(lines) > 0 {
			times.zone = zoneOf(lines[len(lines)-1], modified)
		}
		first = len(lines)
		for i := len(lines) - 1; i >= 0; i-- {
			at, ok := times.of(lines[i])
			if ok && at.Before(s.since) {
				enough = true
				break
			}
			if ok {
				first = i
			}
		}
	}
	if s.tail >= 0 && len(lines)-first >= s.tail {
		return lines[len(lines)-s.tail:], true
	}
	return lines[first:], enough
}

func (s *stream) copy(part *nodefiles.Part) error {
	defer part.Body.Close()
	s.next = part.From
	r := bufio.NewReaderSize(part.Body, firstRead)
	for {
		text, err := r.ReadSlice('\n')
		s.next += int64(len(text))
		s.half += string(text)
		if strings.HasSuffix(s.half, "\n") || len(s.half) > maxLine {
			line := strings.TrimRight(s.half, "\r\n")
			s.half = ""
			if err := s.show(line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return session.Explain(err, "reading log "+s.file+" of node "+s.node)
		}
	}
}

// Pauses between reads of a followed log.
const (
	followInterval = time.Second
	followRetry    = 10 * time.Second
)

// follow shows new lines until ctx is done. It reports errors to fails and continues.
func (s *stream) follow(ctx context.Context, fails func(error)) error {
	pause, failed := followInterval, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		err := s.more(ctx)
		var failure *session.Failure
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pause, failed = followInterval, false
		case !errors.As(err, &failure):
			return err // the output failed
		case failure.Code == session.CodeForbidden:
			return err
		default:
			if !failed {
				fails(err)
			}
			pause, failed = followRetry, true
		}
	}
}

// more shows the lines since the last read. If the log has become shorter, it starts over.
func (s *stream) more(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	part, err := s.client.From(ctx, s.node, s.file, s.next)
	switch {
	case errors.Is(err, nodefiles.ErrNoMore):
		if part.Size < s.next {
			s.next, s.half = 0, ""
		}
		return nil
	case errors.Is(err, nodefiles.ErrAbsent):
		s.next, s.half = 0, "" // the service has not written its log yet
		return nil
	case err != nil:
		return err
	case part.From != s.next: // the kubelet does not support ranges
		s.half = ""
	}
	return s.copy(part)
}
