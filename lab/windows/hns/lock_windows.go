package hns

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock waits for an exclusive lock of a byte for this open file.
func lock(f *os.File, offset int64) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, at(offset))
}

// tryLock takes a shared lock of a byte, unless it is locked exclusively.
func tryLock(f *os.File, offset int64) (taken bool, err error) {
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at(offset))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File, offset int64) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, at(offset))
}

func at(offset int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(offset), OffsetHigh: uint32(offset >> 32)}
}
