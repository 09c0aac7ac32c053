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

func readPerformance() (p performance, err error) {
	p.length = uint32(unsafe.Sizeof(p))
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetPerformanceInfo")
	if ok, _, err := call.Call(uintptr(unsafe.Pointer(&p)), uintptr(p.length)); ok == 0 {
		return p, fmt.Errorf("GetPerformanceInfo: %w", err)
	}
	return p, nil
}

// memoryBytes returns the physical memory.
func memoryBytes() (uint64, error) {
	p, err := readPerformance()
	return uint64(p.total) * uint64(p.page), err
}

// Commit implements hostapi.Inventory. The kubelet's memory.available is the difference of the same numbers.
func (inventory) Commit(ctx context.Context) (hostapi.Commit, error) {
	if err := ctx.Err(); err != nil {
		return hostapi.Commit{}, err
	}
	p, err := readPerformance()
	return hostapi.Commit{Used: uint64(p.commit) * uint64(p.page), Limit: uint64(p.commitLimit) * uint64(p.page)}, err
}
