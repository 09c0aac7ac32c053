package win

import (
	"testing"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	h := mustHost(t)
	contract.Memory(t, func(*testing.T) contract.MemoryFixture {
		f := contract.MemoryFixture{Inventory: h.Inventory, System: h.System, Commit: mustAllocate}
		if onWine() {
			f.Commit, f.NoCommit = nil, "Wine counts the memory that Linux uses, and not what programs committed"
		}
		return f
	})
}

// mustAllocate commits memory, without using it.
func mustAllocate(t *testing.T, bytes uint64) {
	t.Helper()
	at, err := windows.VirtualAlloc(0, uintptr(bytes), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = windows.VirtualFree(at, 0, windows.MEM_RELEASE) })
}
