package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Locks of the host. The holder of CommandLock runs a command that changes the host. The holder of ServicesLock changes services: a join, or
// the running service.
const (
	CommandLock  = desired.State + `\command.lock`
	ServicesLock = desired.State + `\services.lock`
)

// commandLockTimeout is how long a command waits for the previous one: one whose connection was just lost ends within a moment.
// servicesLockTimeout is more than the start of a few services takes.
const (
	commandLockTimeout  = 5 * time.Second
	servicesLockTimeout = 2 * time.Minute
)

// LockCommands takes the lock for commands that change the host, after claiming the folder of the lock.
func LockCommands(ctx context.Context, h hostapi.Host) (release func(), err error) {
	changes, err := Claim(h, desired.Root)
	if err != nil {
		return nil, err
	}
	if _, err := h.Disk.MakeFolder(desired.State); err != nil {
		return nil, fmt.Errorf("creating %s: %w", desired.State, err)
	}
	for _, change := range changes {
		Note(h.Disk, wicdapi.JournalEntry{Time: time.Now().UTC(), Step: "claiming " + desired.Root, Change: change})
	}
	release, err = lock(ctx, h.System, CommandLock, commandLockTimeout)
	if errors.Is(err, hostapi.ErrLocked) {
		return nil, &wicdapi.Error{Code: wicdapi.CodeBusy, Message: "another receive, join or leave is running on this host; retry when it has finished"}
	}
	return release, err
}

// WhileCurrent makes a change under the command lock, unless the record on the host is not that of the session: then a join was faster,
// and the next session checks again.
func (s Session) WhileCurrent(ctx context.Context, change func() error) error {
	release, err := LockCommands(ctx, s.Host)
	if err != nil {
		return err
	}
	defer release()
	if !s.IsCurrent() {
		return nil
	}
	return change()
}

// ErrBusy means that a command is changing the host, or that the session is about to end.
var ErrBusy = errors.New("another process is changing the host")

// IfIdle makes a change as WhileCurrent does, but returns ErrBusy instead of waiting. It is for changes that are retried anyway.
func (s Session) IfIdle(change func() error) error {
	release, err := s.Host.System.Lock(CommandLock)
	if IsHeld(err) {
		return ErrBusy
	}
	if err != nil {
		return err
	}
	defer release()
	if !s.IsCurrent() {
		return ErrBusy
	}
	return change()
}

// LockServices takes the services lock, waiting for it if necessary.
func LockServices(ctx context.Context, s hostapi.System) (release func(), err error) {
	return lock(ctx, s, ServicesLock, servicesLockTimeout)
}

// IsHeld reports whether a lock could not be taken because a command or the service holds it, or because the folder of locks was removed while
// the host leaves. Callers that only maintain the host's state then do nothing.
func IsHeld(err error) bool {
	return errors.Is(err, hostapi.ErrLocked) || errors.Is(err, fs.ErrNotExist)
}

// lock takes a lock, waiting for it if necessary.
func lock(ctx context.Context, s hostapi.System, name string, timeout time.Duration) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		release, err := s.Lock(name)
		if !errors.Is(err, hostapi.ErrLocked) {
			return release, err
		}
		if backoff.Sleep(ctx, 100*time.Millisecond) != nil {
			return nil, fmt.Errorf("waiting for %s: %w", name, err)
		}
	}
}
