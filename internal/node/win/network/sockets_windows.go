package network

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// Sockets returns the listening TCP sockets and all UDP sockets. golang.org/x/sys lacks the calls.
func Sockets() (sockets []Socket, err error) {
	dll := windows.NewLazySystemDLL("iphlpapi.dll")
	for _, t := range tables() {
		call := dll.NewProc(t.function)
		if err := call.Find(); err != nil {
			return nil, err
		}
		content, err := scm.Answer(func(buffer *byte, size uint32, needed *uint32) error {
			*needed = size
			const unordered = 0
			code, _, _ := call.Call(uintptr(unsafe.Pointer(buffer)), uintptr(unsafe.Pointer(needed)), unordered, uintptr(t.family), uintptr(t.class), 0)
			if code != 0 {
				return syscall.Errno(code)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s for address family %d: %w", t.function, t.family, err)
		}
		sockets = append(sockets, t.parse(content)...)
	}
	return sockets, nil
}
