//go:build linux

package lab

import (
	"errors"
	"os"
	"syscall"
)

// memoryNeeded is several times what the hosts of a test take.
const memoryNeeded = 8 << 30

// PreferMemory has what is temporary made in memory from now on, where /dev/shm has room for it: drives of hosts, and the data of
// the control plane. The disk of a machine that is not ours alone may stand still for minutes, and be so full that kubelets evict
// pods. Go builds its programs where it did before.
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
