package registry

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// maxResumes is how often the rest of a layer is requested.
const maxResumes = 8

// layer is a blob on its way to containerd.
type layer struct {
	*requestHandler
	q        request
	o        origin
	attempts []mirrors.Attempt
	// at is the registry that is read, and body its response; next is the first byte not forwarded yet. end is the one after the last; -1
	// if no registry has reported the length.
	at        int
	body      io.ReadCloser
	next, end int64
	// sum is of the whole blob; nil if only a part is requested.
	sum hash.Hash
}

// stream forwards a blob while it is received. It returns an error only before the first byte.
func (s *requestHandler) stream(ctx context.Context, w http.ResponseWriter, q request, o origin, attempts []mirrors.Attempt, within time.Duration) error {
	l := &layer{requestHandler: s, q: q, o: o, attempts: attempts, next: q.start, end: -1}
	status, total, err := l.open(ctx, within)
	if err != nil {
		return err
	}
	defer func() { _ = l.body.Close() }()
	if !q.isRange || q.start == 0 && q.end < 0 {
		_, l.sum = hasher(q.reference)
	}
	buffer := make([]byte, bufferSize)
	n, err := l.fill(buffer) // so that a registry that breaks off at once is not used
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the response: %w", err)
	}
	if n == 0 && l.end > l.next {
		return errors.New("the response is empty")
	}
	l.header(w.Header(), status, total)
	w.WriteHeader(status)
	if err := l.copy(ctx, w, buffer, n, err); err != nil {
		s.request(Failed)
		s.log.Warn("Forwarding a layer failed", "image", q.name.String(), "digest", q.reference, "error", err.Error())
		panic(http.ErrAbortHandler) // containerd must not mistake it for the whole layer
	}
	s.request(Served)
	return nil
}

// open requests the bytes from next on from the current registry.
func (l *layer) open(ctx context.Context, within time.Duration) (status int, total int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	began := time.Now()
	timer := time.AfterFunc(within, func() { cancel(errSlow) })
	a := l.attempts[l.at]
	response, err := l.client.Do(ctx, l.q.rest(l.end).upstream(http.MethodGet, l.next), a)
	if !timer.Stop() && err == nil {
		_ = response.Body.Close()
		err = errSlow
	}
	if err != nil {
		cancel(nil)
		if errors.Is(context.Cause(ctx), errSlow) {
			err = errSlow
		}
		return 0, 0, err
	}
	first := min(l.limits.idle, max(within-time.Since(began), time.Millisecond)) // containerd also waits for the first byte
	l.body = &timedBody{ReadCloser: response.Body, cancel: cancel, timer: time.AfterFunc(first, func() { cancel(errSlow) }), idle: l.limits.idle}
	status, total, err = l.accept(response)
	if err != nil {
		_ = l.body.Close()
	}
	return status, total, err
}

var errSlow = errors.New("timed out waiting for a response")

// rest is the request for the remaining bytes.
func (q request) rest(end int64) request {
	if end >= 0 {
		q.end = end - 1
	}
	return q
}

// accept checks the response: either the requested part, or the whole blob, whose beginning is skipped.
func (l *layer) accept(response *http.Response) (status int, total int64, err error) {
	if response.StatusCode == http.StatusPartialContent {
		first, last, all, err := parseContentRange(response.Header.Get("Content-Range"))
		if err != nil || first != l.next || l.end >= 0 && last+1 != l.end {
			return 0, 0, errors.New("the response has a different range than requested")
		}
		l.end = last + 1
		return http.StatusPartialContent, all, nil
	}
	total, end := response.ContentLength, response.ContentLength
	if l.q.isRange && l.q.end >= 0 && (end < 0 || l.q.end+1 < end) {
		end = l.q.end + 1
	}
	switch {
	case total >= 0 && total < l.next || l.end >= 0 && end >= 0 && end != l.end:
		return 0, 0, errors.New("length changed between responses")
	case l.q.isRange && total < 0:
		return 0, 0, errors.New("the response to a range request has neither a range nor a length")
	}
	if _, err := io.CopyN(io.Discard, l.body, l.next); err != nil {
		return 0, 0, fmt.Errorf("skipping the beginning: %w", err)
	}
	l.end = end
	if l.q.isRange {
		return http.StatusPartialContent, total, nil
	}
	return http.StatusOK, total, nil
}

// parseContentRange parses "bytes first-last/all", where all may be *, which is returned as -1.
func parseContentRange(text string) (first, last, all int64, err error) {
	rest, isBytes := strings.CutPrefix(text, "bytes ")
	part, whole, hasWhole := strings.Cut(rest, "/")
	from, to, hasTo := strings.Cut(part, "-")
	if !isBytes || !hasWhole || !hasTo {
		return 0, 0, 0, errors.New("Content-Range has no byte range")
	}
	first, errFirst := strconv.ParseInt(from, 10, 64)
	last, errLast := strconv.ParseInt(to, 10, 64)
	all = -1
	var errAll error
	if whole != "*" {
		all, errAll = strconv.ParseInt(whole, 10, 64)
	}
	if err := errors.Join(errFirst, errLast, errAll); err != nil || first < 0 || last < first || all >= 0 && last >= all {
		return 0, 0, 0, errors.New("Content-Range is not a valid byte range")
	}
	return first, last, all, nil
}

func (l *layer) header(h http.Header, status int, total int64) {
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Docker-Content-Digest", l.q.reference)
	h.Set("Accept-Ranges", "bytes")
	if l.end >= 0 {
		h.Set("Content-Length", strconv.FormatInt(l.end-l.q.start, 10))
	}
	if status == http.StatusPartialContent {
		whole := "*"
		if total >= 0 {
			whole = strconv.FormatInt(total, 10)
		}
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", l.q.start, l.end-1, whole))
	}
}

// fill reads the available bytes, up to a full buffer, and not beyond the end.
func (l *layer) fill(buffer []byte) (int, error) {
	if left := l.end - l.next; l.end >= 0 && int64(len(buffer)) > left {
		buffer = buffer[:left]
	}
	for len(buffer) > 0 {
		if n, err := l.body.Read(buffer); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// fillWhole reads a full buffer if the end is known: few large pieces cost less than many small ones.
func (l *layer) fillWhole(buffer []byte) (int, error) {
	if l.end < 0 {
		return l.fill(buffer)
	}
	return io.ReadFull(l.body, buffer[:min(int64(len(buffer)), l.end-l.next)])
}

// copy forwards the body, n bytes of which are already in the buffer. After an interruption it requests the rest: first from the same
// registry, then from the others. The last piece is forwarded only if the whole blob matches its digest.
func (l *layer) copy(ctx context.Context, w http.ResponseWriter, buffer []byte, n int, err error) error {
	out := l.newLayerWriter(ctx, w)
	defer out.close()
	for resumes := 0; ; {
		l.next += int64(n)
		if l.sum != nil {
			l.sum.Write(buffer[:n])
		}
		isLast := l.end >= 0 && l.next == l.end || l.end < 0 && errors.Is(err, io.EOF)
		if isLast && l.isDamaged() {
			return errDamaged
		}
		if err := out.write(buffer[:n], isLast); err != nil {
			return fmt.Errorf("sending to containerd: %w", err)
		}
		if isLast {
			return nil
		}
		if err != nil {
			if err := l.resume(ctx, &resumes); err != nil {
				return err
			}
		}
		n, err = l.fillWhole(buffer)
	}
}

// isDamaged reports whether the whole blob does not match its digest, and records the registry.
func (l *layer) isDamaged() bool {
	if l.sum == nil {
		return false
	}
	algorithm, _ := hasher(l.q.reference)
	if algorithm+hex.EncodeToString(l.sum.Sum(nil)) == l.q.reference {
		return false
	}
	l.memory.damaged.Add(damage{content{l.q.name, l.q.reference}, l.attempts[l.at].Name}, nil, remembered)
	return true
}

// resume continues after an interruption.
func (l *layer) resume(ctx context.Context, resumes *int) error {
	_ = l.body.Close()
	for l.end >= 0 && *resumes < maxResumes && ctx.Err() == nil {
		*resumes++
		if *resumes > 1 && l.at+1 < len(l.attempts) {
			l.at++
		}
		if _, _, err := l.open(ctx, l.limits.timeout); err == nil {
			return nil
		}
	}
	return errors.New("connection lost, and no registry can resume")
}

// timedBody cancels its request if nothing is received for a while.
type timedBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.timer.Reset(b.idle)
	}
	return n, err
}

// Close implements io.Closer.
func (b *timedBody) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
