//go:build linux

package lab

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// memoryNeeded is several times the memory that the hosts of a test need.
const memoryNeeded = 8 << 30

// PreferMemory moves temporary files, such as the drives of hosts and the control plane's data, to /dev/shm if it has room. A
// shared disk can stall for minutes, and can be so full that kubelets evict pods. Go's build folder stays on disk.
func PreferMemory() error {
	const memory = "/dev/shm"
	var s syscall.Statfs_t
	if err := syscall.Statfs(memory, &s); err != nil || s.Bavail*uint64(s.Bsize) < memoryNeeded {
		return nil
	}
	var err error
	if os.Getenv("GOTMPDIR") == "" {
		err = os.Setenv("GOTMPDIR", os.TempDir())
	}
	return errors.Join(err, os.Setenv("TMPDIR", memory))
}

// RunTests runs the tests of a package with temporary files in memory.
func RunTests(m *testing.M) {
	if err := PreferMemory(); err != nil {
		panic(err)
	}
	m.Run()
}
