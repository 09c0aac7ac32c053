package win

import (
	"context"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// performance is PERFORMANCE_INFORMATION, which golang.org/x/sys lacks. Sizes are in pages.
type performance struct {
	length                                                                            uint32
	commit, commitLimit, commitPeak, total, available, cache, kernel, paged, nonpaged uintptr
	page                                                                              uintptr
	handles, processes, threads                                                       uint32
}

// Commit implements hostapi.Inventory. The kubelet's memory.available is the difference of the same numbers.
func (inventory) Commit(ctx context.Context) (hostapi.Commit, error) {
	if err := ctx.Err(); err != nil {
		return hostapi.Commit{}, err
	}
	var p performance
	p.length = uint32(unsafe.Sizeof(p))
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetPerformanceInfo")
	if ok, _, err := call.Call(uintptr(unsafe.Pointer(&p)), uintptr(p.length)); ok == 0 {
		return hostapi.Commit{}, fmt.Errorf("GetPerformanceInfo: %w", err)
	}
	return hostapi.Commit{Used: uint64(p.commit) * uint64(p.page), Limit: uint64(p.commitLimit) * uint64(p.page)}, nil
}
