// Package prepare prepares a Windows machine to be captured as an image: it sends the content of nodes, enables Windows features, and has containerd pull
// the sandbox image. A machine that is made from the image then joins without a transfer, without a restart for features, and without that pull.
package prepare

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

const (
	// retryAfter is the pause between attempts while the machine restarts, or Windows is busy.
	retryAfter = 10 * time.Second
	// awaitedFor is how long a restart may take, with the setup and servicing of Windows after it.
	awaitedFor = time.Hour
	// maxFailures is how many attempts in a row may fail for other reasons, such as security software that holds a file.
	maxFailures = 3
)

// Preparation is what to prepare.
type Preparation struct {
	// Dial connects to the machine.
	Dial func(ctx context.Context) (*remote.Host, error)
	// Payload is the operator's payload; Content is the part of it that the machine gets, with WICD.
	Payload *payload.Payload
	Content payload.Manifest
	// Request has the Windows features to enable, and the sandbox image to pull.
	Request wicdapi.PrepareRequest
	// Observer receives progress reports.
	Observer join.Observer
}

// Run prepares the machine, and restarts it if features need that. It can be repeated.
func (p Preparation) Run(ctx context.Context) error {
	var from string // boot ID before the restart that Run awaits
	var deadline time.Time
	failures := 0
	for {
		v := &join.Visit{Host: connector(p.Dial), Payload: p.Payload, Content: p.Content, Observer: p.Observer, Now: time.Now}
		err := v.Prepare(ctx, join.Transfer{TakeSlot: takeSlot}, p.Request, from)
		restart, isRestarting := errors.AsType[*join.Rebooting](err)
		switch {
		case isRestarting && restart.BootID != from:
			from, deadline, failures = restart.BootID, time.Now().Add(awaitedFor), 0
		case isRestarting, join.IsWindowsBusy(err), from != "" && isUnanswered(err):
			if deadline.IsZero() {
				deadline = time.Now().Add(awaitedFor)
			}
			if time.Now().After(deadline) {
				return err
			}
		default:
			if failures++; err == nil || isFinal(err) || failures == maxFailures {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryAfter):
		}
	}
}

// isUnanswered reports whether the machine did not answer, as during a restart.
func isUnanswered(err error) bool {
	failed, ok := errors.AsType[*remote.Error](err)
	if !ok {
		return false
	}
	switch failed.Kind {
	case remote.Refused, remote.Unreachable, remote.Timeout, remote.Lost, remote.Protocol:
		return true
	}
	return false
}

// isFinal reports whether another attempt would fail, too: the machine cannot be reached as requested, or must not be prepared.
func isFinal(err error) bool {
	_, unreachable := errors.AsType[*remote.Error](err)
	_, unsupported := errors.AsType[*join.Unsupported](err)
	failed := wicdapi.Failed(err)
	return unreachable || unsupported || failed != nil && failed.Code == wicdapi.CodeRequestInvalid
}

// takeSlot limits nothing: there is one machine.
func takeSlot() (io.Closer, error) { return io.NopCloser(nil), nil }

// connector connects to the machine.
type connector func(ctx context.Context) (*remote.Host, error)

// Connect implements join.Connector.
func (c connector) Connect(ctx context.Context) (join.Host, error) {
	h, err := c(ctx)
	if err != nil {
		return nil, err
	}
	return host{h}, nil
}

// host is a connected machine.
type host struct{ *remote.Host }

// Files implements join.Host.
func (h host) Files(ctx context.Context, use func(wicdapi.Files) error) error {
	return h.Host.Files(ctx, func(f *remote.Files) error { return use(f) })
}
