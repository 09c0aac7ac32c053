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

	"github.com/windows-machine-config/wmco/lab/guestapi"
	"github.com/windows-machine-config/wmco/lab/hostspec"
)

// limits are what the kernel enforces for the processes of a container.
type limits struct {
	// Data is the memory in bytes that each of them can commit (RLIMIT_DATA). More fails, as on Windows. The memory controller of cgroups
	// would kill the process instead, and Wine takes that for success: exit code 0.
	Data uint64
	// Quota is the time of processors for all of them, in microseconds of each 100 ms, and Cgroup the folder of their cgroup.
	Quota  int
	Cgroup string
}

// wineOwn is the memory that Wine commits in a process for itself, such as threads and handles: 10 to 60 MB were measured.
const wineOwn = 64 << 20

func limitsOf(l guestapi.Limits, processors int) (own limits) {
	if l.MemoryInMB > 0 {
		own.Data = l.MemoryInMB<<20 + wineOwn
	}
	if l.ProcessorMax > 0 {
		const period, least = 100_000, 1000 // as the kernel sets the period
		own.Quota = max(int(l.ProcessorMax)*processors*period/10_000, least)
	}
	return own
}

func limitsFile(drive string) string { return filepath.Join(hostspec.Drives, drive, "limits.json") }

// limit prepares the limits of a container. Without cgroups of version 1, its use of processors has none.
func (h host) limit(drive string, l guestapi.Limits) error {
	own := limitsOf(l, runtime.NumCPU())
	if own == (limits{}) {
		return nil
	}
	if folder := cpuFolder(); folder != "" && own.Quota > 0 {
		own.Cgroup = filepath.Join(folder, h.spec.Cgroup, drive)
		if err := os.MkdirAll(own.Cgroup, 0o755); err != nil {
			return fmt.Errorf("creating a cgroup: %w", err)
		}
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

// cpuFolder is this process's cgroup for processors; "" if there is none of version 1.
func cpuFolder() string {
	hierarchies, err := cgroups()
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(hierarchies, func(h hierarchy) bool { return slices.Contains(strings.Split(h.options, ","), "cpu") })
	if i < 0 {
		return ""
	}
	return hierarchies[i].folder
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

// enterLimits limits this process, and the program that it becomes, as a container.
func enterLimits(drive string) error {
	own, err := readLimits(drive)
	if err != nil {
		return err
	}
	if own.Cgroup != "" {
		if err := writeCgroup(own.Cgroup, "cgroup.procs", "0"); err != nil { // 0 is the process that writes
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

// removeLimits removes the cgroup of a container. One that still has a process goes with the lab.
func removeLimits(drive string) error {
	own, err := readLimits(drive)
	if own.Cgroup != "" {
		_ = os.Remove(own.Cgroup)
	}
	return err
}
