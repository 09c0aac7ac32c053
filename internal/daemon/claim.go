package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// Locks of the host. Whoever holds the first runs a command that changes the host, whoever holds the second
// changes services: a join, or the service at work.
const (
	commandLock  = desired.State + `\command.lock`
	servicesLock = desired.State + `\services.lock`
)

// commandPatience is how long a command waits for the one before it: the one whose connection was just cut ends
// within a moment. servicesPatience is more than starting a few services takes.
const (
	commandPatience  = 5 * time.Second
	servicesPatience = 2 * time.Minute
)

// begin makes the host's folder ours and takes the lock of commands.
func begin(ctx context.Context, h Host) (release func(), err error) {
	if err := claim(h, desired.Root); err != nil {
		return nil, err
	}
	if _, err := h.Disk.MakeFolder(desired.State); err != nil {
		return nil, fmt.Errorf("making %s: %w", desired.State, err)
	}
	release, err = lock(ctx, h.System, commandLock, commandPatience)
	if errors.Is(err, ErrLocked) {
		return nil, &agent.Error{Code: agent.CodeBusy, Message: "another receive, join or leave runs on this host; try again when it has ended"}
	}
	return release, err
}

// lock takes a lock, waiting for it if need be.
func lock(ctx context.Context, s System, name string, patience time.Duration) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		release, err := s.Lock(name)
		if !errors.Is(err, ErrLocked) {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", name, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// claim makes a folder, and everything that is in it, belong to Administrators. Any user of a Windows host may make
// folders on drive C:, so the folder may be somebody's trap: a link instead of a folder is refused, links to
// folders below it go.
func claim(h Host, folder string) error {
	if info, err := h.Disk.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("claiming %s: it is a link or a file, and must be a folder; remove it", folder)
	}
	if _, err := h.Disk.MakeFolder(folder); err != nil {
		return fmt.Errorf("making %s: %w", folder, err)
	}
	err := h.Disk.Walk(folder, func(name string, info fs.FileInfo) error {
		if isLink(info) {
			if to, err := os.Stat(h.Disk.Local(name)); err == nil && to.IsDir() {
				return h.Disk.Remove(name)
			}
			return nil
		}
		if isAside(name) && h.Disk.Remove(name) == nil {
			return nil // what was in use when it was replaced is so no more
		}
		if err := h.System.Protect(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("claiming %s: %w", folder, err)
	}
	return nil
}

// isLink knows symbolic links, and the junctions of Windows, which Go calls irregular.
func isLink(info fs.FileInfo) bool { return info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 }
