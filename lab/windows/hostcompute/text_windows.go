package main

/*
#cgo LDFLAGS: -lole32
#include <objbase.h>
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hcs"
)

// setText allocates a copy of text, and stores it in to. The caller frees it.
func setText(to **uint16, text string) {
	if to == nil {
		return
	}
	units := append(utf16.Encode([]rune(text)), 0)
	memory := C.CoTaskMemAlloc(C.SIZE_T(2 * len(units)))
	if memory == nil {
		return
	}
	copy(unsafe.Slice((*uint16)(memory), len(units)), units)
	*to = (*uint16)(memory)
}

func text(p *uint16) string { return windows.UTF16PtrToString(p) }

// log is the log file of all processes of the host, or nil if it cannot be written.
var log = sync.OnceValue(func() *os.File {
	file, err := os.OpenFile(guestapi.HostComputeLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil
	}
	return file
})

// logf writes a line to the log.
func logf(format string, args ...any) {
	program, _ := os.Executable()
	line := fmt.Sprintf("%s %s[%d] %s\n", time.Now().Format("15:04:05.000"), filepath.Base(program), os.Getpid(), fmt.Sprintf(format, args...))
	if file := log(); file != nil {
		_, _ = file.WriteString(line)
	}
}

// result returns Windows' result for an error, and writes a line to the log.
func result(err error, format string, args ...any) uint32 {
	call := fmt.Sprintf(format, args...)
	if err != nil {
		logf("%s: %v", call, err)
		return uint32(hcs.ResultOf(err))
	}
	logf("%s", call)
	return 0
}
