//go:build unix

package hns

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Locks are those of the open file (OFD). Wine uses the same kind for the programs of a host, so that they exclude reapers and
// tests.

// lock waits for an exclusive lock of a byte for this open file.
func lock(f *os.File, offset int64) error { return setLock(f, unix.F_OFD_SETLKW, unix.F_WRLCK, offset) }

// tryLock takes a shared lock of a byte, unless it is locked exclusively.
func tryLock(f *os.File, offset int64) (taken bool, err error) {
	err = setLock(f, unix.F_OFD_SETLK, unix.F_RDLCK, offset)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File, offset int64) error {
	return setLock(f, unix.F_OFD_SETLK, unix.F_UNLCK, offset)
}

func setLock(f *os.File, command, kind int, offset int64) error {
	for {
		err := unix.FcntlFlock(f.Fd(), command, &unix.Flock_t{Type: int16(kind), Whence: io.SeekStart, Start: offset, Len: 1})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
