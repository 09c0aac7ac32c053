//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// limits are the limits of the kernel for the processes of a container.
type limits struct {
	// Data is the memory in bytes that each process can commit (RLIMIT_DATA). Allocations beyond it fail, as on Windows. The
	// memory controller of cgroups would kill the process instead, which Wine reports as exit code 0.
	Data uint64
	// Quota is the CPU time of all processes in microseconds per 100 ms, and Cgroup the folder of their cgroup.
	Quota  int
	Cgroup string
	// Accounting is the folder of the cgroup that measures the CPU time of all processes.
	Accounting string
}

// wineOverhead is the memory that Wine itself commits in a process, for threads, handles and so on. Measurements showed 10 to 60 MB.
const wineOverhead = 64 << 20

func limitsOf(l guestapi.Limits, processors int) (converted limits) {
	if l.MemoryInMB > 0 {
		converted.Data = l.MemoryInMB<<20 + wineOverhead
	}
	if l.ProcessorMax > 0 {
		const period, minimum = 100_000, 1000 // period is the kernel's default
		converted.Quota = max(int(l.ProcessorMax)*processors*period/10_000, minimum)
	}
	return converted
}

func limitsFile(drive string) string { return filepath.Join(hostspec.Drives, drive, "limits.json") }

// limit prepares the limits of a container and the accounting of its CPU time. Without cgroups of version 1, CPU time is
// neither limited nor measured.
func (h host) limit(drive string, l guestapi.Limits) (err error) {
	own := limitsOf(l, runtime.NumCPU())
	if own.Accounting, err = h.makeCgroup("cpuacct", drive); err != nil {
		return err
	}
	if own.Accounting != "" {
		if err := os.Symlink(own.Accounting, filepath.Join(hostspec.Drives, drive, hostspec.Accounting)); err != nil {
			return fmt.Errorf("linking a cgroup: %w", err)
		}
	}
	if own.Quota > 0 {
		if own.Cgroup, err = h.makeCgroup("cpu", drive); err != nil {
			return err
		}
	}
	if own.Cgroup != "" {
		if err := writeCgroup(own.Cgroup, "cpu.cfs_quota_us", strconv.Itoa(own.Quota)); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("encoding limits: %w", err)
	}
	return os.WriteFile(limitsFile(drive), raw, 0o644)
}

// makeCgroup creates a container's cgroup of a controller, and returns its folder, or "" if the machine has no such controller
// of version 1.
func (h host) makeCgroup(controller, drive string) (string, error) {
	hierarchies, err := cgroups()
	if err != nil {
		return "", nil //nolint:nilerr // an error means that there are none
	}
	i := slices.IndexFunc(hierarchies, func(h hierarchy) bool { return slices.Contains(strings.Split(h.options, ","), controller) })
	if i < 0 {
		return "", nil
	}
	folder := filepath.Join(hierarchies[i].folder, h.spec.Cgroup, drive)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("creating a cgroup: %w", err)
	}
	return folder, nil
}

func readLimits(drive string) (own limits, err error) {
	raw, err := os.ReadFile(limitsFile(drive))
	if errors.Is(err, fs.ErrNotExist) {
		return own, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &own)
	}
	if err != nil {
		return own, fmt.Errorf("reading the limits of a container: %w", err)
	}
	return own, nil
}

// enterLimits applies the limits of a container to this process, and the program that it becomes.
func enterLimits(drive string) error {
	own, err := readLimits(drive)
	if err != nil {
		return err
	}
	for _, folder := range own.folders() {
		if err := writeCgroup(folder, "cgroup.procs", "0"); err != nil { // 0 is the writing process
			return err
		}
	}
	if own.Data > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: own.Data, Max: own.Data}); err != nil {
			return fmt.Errorf("limiting memory: %w", err)
		}
	}
	return nil
}

// removeLimits removes the cgroups of a container. A cgroup that still has a process is removed with the lab.
func removeLimits(drive string) error {
	own, err := readLimits(drive)
	for _, folder := range own.folders() {
		_ = os.Remove(folder)
	}
	return err
}

// folders returns the folders of all cgroups of the container. Both controllers can have the same folder.
func (l limits) folders() []string {
	all := slices.Compact([]string{l.Cgroup, l.Accounting})
	return slices.DeleteFunc(all, func(folder string) bool { return folder == "" })
}
