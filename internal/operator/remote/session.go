package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// end closes the connection with a reason. Only the first reason is kept.
func (h *Host) end(cause error) {
	h.once.Do(func() {
		h.cause = cause
		close(h.dead)
	})
	h.conn.Close()
}

// watch calls end when the connection ends.
func (h *Host) watch() {
	err := h.client.Wait()
	if errors.Is(err, io.EOF) {
		err = errors.New("the host closed the connection")
	}
	h.end(bounded(err))
}

// keepAlive sends a request at every interval, and closes the connection after too many intervals without any data from the host. Any byte counts,
// because the response may be queued behind a long transfer.
func (h *Host) keepAlive() {
	tick := time.NewTicker(h.options.KeepAlive)
	defer tick.Stop()
	var pending atomic.Bool
	unanswered, received := 0, h.conn.in.Load()
	for {
		select {
		case <-h.dead:
			return
		case <-tick.C:
		}
		if now := h.conn.in.Load(); now != received {
			unanswered, received = 0, now
		}
		if unanswered == h.options.KeepAliveMisses {
			h.end(fmt.Errorf("no data received for %s", time.Duration(unanswered)*h.options.KeepAlive))
			return
		}
		unanswered++
		if pending.CompareAndSwap(false, true) { // TCP itself retransmits an unanswered request
			go func() {
				defer pending.Store(false)
				_ = h.probe()
			}()
		}
	}
}

// probe sends a request to which the host must respond in some way. It returns when the response has arrived or the connection has ended.
func (h *Host) probe() error {
	_, _, err := h.client.SendRequest("keepalive@openssh.com", true, nil)
	return err
}

// explain returns err, or Lost if the connection itself has ended. The SSH library reports both a closed channel and a lost connection as the end of
// the stream, so explain sends a request to the host.
func (h *Host) explain(err error) error {
	answer := make(chan error, 1)
	go func() { answer <- h.probe() }()
	select {
	case probeErr := <-answer:
		if probeErr == nil {
			return err
		}
		h.end(errors.New("the host closed the connection"))
	case <-h.dead:
	case <-time.After(h.options.Grace):
		return err
	}
	return h.lostError()
}

func (h *Host) lostError() error {
	return &Error{Kind: Lost, Host: h.name, Err: fmt.Errorf("the connection was lost: %w", h.cause)}
}

// session opens a channel and passes it to use. If ctx ends first, session kills the command in the channel and closes the channel. If use does not
// return within Options.Grace, it closes the connection.
func (h *Host) session(ctx context.Context, use func(*ssh.Session) error) error {
	select {
	case <-h.dead:
		return h.lostError()
	default:
	}
	var opened atomic.Pointer[ssh.Session]
	done := make(chan error, 1)
	go func() { done <- h.open(ctx, &opened, use) }()
	select {
	case err := <-done:
		return h.outcome(ctx, err)
	case <-h.dead:
		// The SSH library forgets a channel that is opened at the very moment when the connection ends.
		if ended, err := within(h.options.Grace, done); ended {
			return h.outcome(ctx, err)
		}
		return h.lostError()
	case <-ctx.Done():
	}
	go func() { // may block as long as the connection does
		if s := opened.Load(); s != nil {
			_ = s.Signal(ssh.SIGKILL)
			_ = s.Close()
		}
	}()
	if ended, _ := within(h.options.Grace, done); !ended {
		h.end(fmt.Errorf("a canceled call did not end within %s", h.options.Grace))
		within(h.options.Grace, done) // only a blocked Read or Write of the caller can still delay it
	}
	return context.Cause(ctx)
}

// open opens a channel for use, and stores it in opened so that session can close it early.
func (h *Host) open(ctx context.Context, opened *atomic.Pointer[ssh.Session], use func(*ssh.Session) error) error {
	s, err := h.client.NewSession()
	if err != nil {
		return fmt.Errorf("opening a channel: %w", err)
	}
	defer s.Close()
	h.opened.Add(1)
	opened.Store(s)
	if ctx.Err() != nil { // session may have returned without closing it
		return context.Cause(ctx)
	}
	return use(s)
}

// outcome returns the error for a call that was not canceled.
func (h *Host) outcome(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var exited *ExitError
	var refused *ssh.OpenChannelError
	if err == nil || errors.As(err, &exited) && exited.Status >= 0 {
		return err
	}
	if errors.As(err, &refused) {
		return bounded(err)
	}
	return h.explain(bounded(err))
}

// within waits for a call to end, at most for limit.
func within(limit time.Duration, done <-chan error) (ended bool, err error) {
	select {
	case err := <-done:
		return true, err
	case <-time.After(limit):
		return false, nil
	}
}
