package win

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Lock implements hostapi.System. Windows releases the lock when the process exits.
func (s *system) Lock(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	const exclusiveNow = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(file.Fd()), exclusiveNow, 0, 1, 0, &windows.Overlapped{})
	if err == nil {
		return func() { _ = file.Close() }, nil
	}
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		err = hostapi.ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
}
