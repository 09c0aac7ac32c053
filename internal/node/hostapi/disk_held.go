package hostapi

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A process that reads a file (another WICD command, a backup, antivirus software) can prevent replacing, renaming, linking, truncating or removing
// it, or reusing the name of a removed file. One that renames it or opens it exclusively prevents reading. It has the file open only briefly: changes
// and reads are retried for heldTimeout.
const (
	heldTimeout = 5 * time.Second
	heldPause   = 50 * time.Millisecond
)

// retryWhileHeld retries a change while another process holds the file.
func retryWhileHeld(change func() error) error {
	return newRetryWindow().repeat(HeldCodes(), change)
}

// retryWhileUnreadable retries opening a file for reading while another process holds it.
func retryWhileUnreadable(open func() error) error {
	return newRetryWindow().repeat(UnreadableCodes(), open)
}

// retryWindow is the time for which several actions may be retried in total, starting with the first retry.
type retryWindow struct{ until *time.Time }

func newRetryWindow() retryWindow { return retryWindow{new(time.Time)} }

func (p retryWindow) repeat(codes []Code, action func() error) error {
	for {
		err := action()
		if err == nil || !hasCode(err, codes) {
			return err
		}
		if p.until.IsZero() {
			*p.until = time.Now().Add(heldTimeout)
		}
		if time.Now().After(*p.until) {
			return err
		}
		time.Sleep(heldPause)
	}
}

// Code is a Windows error code. The simulated Windows returns it because these numbers have other meanings on other systems.
type Code uint32

// Error implements error.
func (c Code) Error() string { return fmt.Sprintf("Windows error %d", uint32(c)) }

// HeldCodes returns the errors of changes to a file that a process has open (https://learn.microsoft.com/windows/win32/debug/system-error-codes).
func HeldCodes() []Code {
	return []Code{
		5,    // ERROR_ACCESS_DENIED, also returned if rights are missing
		32,   // ERROR_SHARING_VIOLATION
		33,   // ERROR_LOCK_VIOLATION
		303,  // ERROR_DELETE_PENDING: the file was removed, and disappears when the last process closes it
		1224, // ERROR_USER_MAPPED_FILE: the file is mapped into the memory of a process
	}
}

// UnreadableCodes returns the errors of opening a file for reading that another process holds. ERROR_ACCESS_DENIED is not among them: for reading,
// it nearly always means missing rights.
func UnreadableCodes() []Code {
	return []Code{
		32,  // ERROR_SHARING_VIOLATION
		33,  // ERROR_LOCK_VIOLATION
		303, // ERROR_DELETE_PENDING
	}
}

// hasCode reports whether an error is one of these errors of Windows.
func hasCode(err error, codes []Code) bool {
	var code Code
	var errno syscall.Errno
	switch {
	case errors.As(err, &code):
	case runtime.GOOS == "windows" && errors.As(err, &errno):
		code = Code(errno)
	}
	return slices.Contains(codes, code)
}
