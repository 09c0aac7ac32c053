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

// end closes the connection for the given reason; the first reason stays.
func (h *Host) end(cause error) {
	h.once.Do(func() {
		h.cause = cause
		close(h.dead)
	})
	h.conn.Close()
}

// watch ends the host when its connection ends.
func (h *Host) watch() {
	err := h.client.Wait()
	if errors.Is(err, io.EOF) {
		err = errors.New("the host closed it")
	}
	h.end(bounded(err))
}

// keepAlive asks every interval whether the host is still there, and gives the connection up after too many questions
// without a sign of life. Any byte is one: the answer may be queued behind a long transfer.
func (h *Host) keepAlive() {
	tick := time.NewTicker(h.options.KeepAlive)
	defer tick.Stop()
	var asking atomic.Bool
	unanswered, heard := 0, h.conn.in.Load()
	for {
		select {
		case <-h.dead:
			return
		case <-tick.C:
		}
		if now := h.conn.in.Load(); now != heard {
			unanswered, heard = 0, now
		}
		if unanswered == h.options.KeepAliveMisses {
			h.end(fmt.Errorf("no sign of life for %s", time.Duration(unanswered)*h.options.KeepAlive))
			return
		}
		unanswered++
		if asking.CompareAndSwap(false, true) { // TCP repeats an unanswered question by itself
			go func() {
				defer asking.Store(false)
				_ = h.ask()
			}()
		}
	}
}

// ask makes the host answer, whatever the answer. It returns when the answer is there or the connection has ended.
func (h *Host) ask() error {
	_, _, err := h.client.SendRequest("keepalive@openssh.com", true, nil)
	return err
}

// explain returns err, or Lost when the connection itself has ended. The SSH library reports both a channel that was closed
// and a connection that was lost as the end of the stream, so the host is asked.
func (h *Host) explain(err error) error {
	answer := make(chan error, 1)
	go func() { answer <- h.ask() }()
	select {
	case lost := <-answer:
		if lost == nil {
			return err
		}
		h.end(errors.New("the host closed it"))
	case <-h.dead:
	case <-time.After(h.options.Grace):
		return err
	}
	return h.lost()
}

// lost is the error of a connection that is dead.
func (h *Host) lost() error {
	return &Error{Kind: Lost, Host: h.name, Err: fmt.Errorf("the connection was lost: %w", h.cause)}
}

// session opens a channel and gives it to use. When ctx ends first, the command in the channel is killed and the channel
// closed; when that does not end use within Options.Grace, the connection is closed.
func (h *Host) session(ctx context.Context, use func(*ssh.Session) error) error {
	select {
	case <-h.dead:
		return h.lost()
	default:
	}
	var opened atomic.Pointer[ssh.Session]
	done := make(chan error, 1)
	go func() { done <- h.open(ctx, &opened, use) }()
	select {
	case err := <-done:
		return h.outcome(ctx, err)
	case <-h.dead:
		// The SSH library forgets a channel that is opened in the very moment in which the connection ends.
		if ended, err := within(h.options.Grace, done); ended {
			return h.outcome(ctx, err)
		}
		return h.lost()
	case <-ctx.Done():
	}
	go func() { // it may block for as long as the connection does
		if s := opened.Load(); s != nil {
			_ = s.Signal(ssh.SIGKILL)
			_ = s.Close()
		}
	}()
	if ended, _ := within(h.options.Grace, done); !ended {
		h.end(fmt.Errorf("a canceled call did not end within %s", h.options.Grace))
		within(h.options.Grace, done) // only a blocked Read or Write of the caller's can still hold it
	}
	return context.Cause(ctx)
}

// open opens a channel for use, and stores it for whoever has to close it before its time.
func (h *Host) open(ctx context.Context, opened *atomic.Pointer[ssh.Session], use func(*ssh.Session) error) error {
	s, err := h.client.NewSession()
	if err != nil {
		return fmt.Errorf("opening a channel: %w", err)
	}
	defer s.Close()
	h.opened.Add(1)
	opened.Store(s)
	if ctx.Err() != nil { // nobody may be left to close it
		return context.Cause(ctx)
	}
	return use(s)
}

// outcome is what to tell the caller about a call that ended by itself.
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

// within waits for a call to end, but not for longer than limit.
func within(limit time.Duration, done <-chan error) (ended bool, err error) {
	select {
	case err := <-done:
		return true, err
	case <-time.After(limit):
		return false, nil
	}
}
