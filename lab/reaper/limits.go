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

// limits are what the kernel enforces for the processes of a container.
type limits struct {
	// Data is the memory in bytes that each of them can commit (RLIMIT_DATA). More fails, as on Windows. The memory controller of cgroups
	// would kill the process instead, and Wine takes that for success: exit code 0.
	Data uint64
	// Quota is the time of processors for all of them, in microseconds of each 100 ms, and Cgroup the folder of their cgroup.
	Quota  int
	Cgroup string
	// Accounting is the folder of the cgroup that counts the time of processors for all of them.
	Accounting string
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

// limit prepares the limits of a container, and what counts its use of processors. Without cgroups of version 1, that is neither limited
// nor counted.
func (h host) limit(drive string, l guestapi.Limits) (err error) {
	own := limitsOf(l, runtime.NumCPU())
	if own.Accounting, err = h.makeCgroup("cpuacct", drive); err != nil {
		return err
	}
	if own.Accounting != "" {
		if err := os.Symlink(own.Accounting, filepath.Join(hostspec.Drives, drive, hostspec.Accounting)); err != nil {
			return fmt.Errorf("noting a cgroup: %w", err)
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

// makeCgroup creates a container's cgroup of a controller and returns its folder; "" if the machine has none of version 1.
func (h host) makeCgroup(controller, drive string) (string, error) {
	hierarchies, err := cgroups()
	if err != nil {
		return "", nil //nolint:nilerr // which says that there are none
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

// enterLimits limits this process, and the program that it becomes, as a container.
func enterLimits(drive string) error {
	own, err := readLimits(drive)
	if err != nil {
		return err
	}
	for _, folder := range own.folders() {
		if err := writeCgroup(folder, "cgroup.procs", "0"); err != nil { // 0 is the process that writes
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

// removeLimits removes the cgroups of a container. One that still has a process goes with the lab.
func removeLimits(drive string) error {
	own, err := readLimits(drive)
	for _, folder := range own.folders() {
		_ = os.Remove(folder)
	}
	return err
}

// folders are those of all cgroups of the container. One folder can be for both uses.
func (own limits) folders() []string {
	all := slices.Compact([]string{own.Cgroup, own.Accounting})
	return slices.DeleteFunc(all, func(folder string) bool { return folder == "" })
}
