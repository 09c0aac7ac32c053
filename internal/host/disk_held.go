package host

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A process that reads a file, such as another command of WICD, a backup or antivirus software, can prevent that the file is replaced,
// renamed, linked, emptied or removed, or that a new one gets the name of one that was removed. It has it open for moments: heldPatience is
// how long a change waits.
const (
	heldPatience = 5 * time.Second
	heldPause    = 50 * time.Millisecond
)

// patiently repeats a change of a name while another process holds the file.
func patiently(change func() error) error {
	return newPatience().repeat(change)
}

// patience is the time that changes may wait together, from the first that has to.
type patience struct{ until *time.Time }

func newPatience() patience { return patience{new(time.Time)} }

func (p patience) repeat(change func() error) error {
	for {
		err := change()
		if err == nil || !isHeld(err) {
			return err
		}
		if p.until.IsZero() {
			*p.until = time.Now().Add(heldPatience)
		}
		if time.Now().After(*p.until) {
			return err
		}
		time.Sleep(heldPause)
	}
}

// Code is an error of Windows by its number. A simulated Windows answers with it: on other systems, these numbers mean something else.
type Code uint32

// Error makes Code an error.
func (c Code) Error() string { return fmt.Sprintf("Windows error %d", uint32(c)) }

// HeldCodes are the errors of changes to a file that a process has open
// (https://learn.microsoft.com/windows/win32/debug/system-error-codes).
func HeldCodes() []Code {
	return []Code{
		5,    // ERROR_ACCESS_DENIED, which also means that rights are missing
		32,   // ERROR_SHARING_VIOLATION
		33,   // ERROR_LOCK_VIOLATION
		303,  // ERROR_DELETE_PENDING: it was removed, and goes once nobody has it open
		1224, // ERROR_USER_MAPPED_FILE: it is mapped into the memory of a process
	}
}

// isHeld tells whether Windows refused a change because a process has the file open.
func isHeld(err error) bool {
	var code Code
	var errno syscall.Errno
	switch {
	case errors.As(err, &code):
	case runtime.GOOS == "windows" && errors.As(err, &errno):
		code = Code(errno)
	}
	return slices.Contains(HeldCodes(), code)
}
