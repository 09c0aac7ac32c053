//go:build linux

package lab

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// A Container runs on a LinuxNode. All its values come from the kernel, not from the kubelet or containerd.
type Container struct {
	// PID is the first process's ID in this machine.
	PID    int
	memory string // its cgroup's folder
}

// Container returns a running container by the ID in the status of its pod.
func (n *LinuxNode) Container(id string) (Container, error) {
	_, id, _ = strings.Cut(id, "://")
	var c Container
	err := filepath.WalkDir("/sys/fs/cgroup/memory", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == id {
			c.memory = path
			return fs.SkipAll
		}
		return nil // cgroups come and go
	})
	if err != nil || c.memory == "" {
		return c, fmt.Errorf("finding container %s of node %s: %w", id, n.name, fs.ErrNotExist)
	}
	text, err := os.ReadFile(filepath.Join(c.memory, "cgroup.procs"))
	if err != nil {
		return c, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if c.PID, err = strconv.Atoi(first); err != nil {
		return c, fmt.Errorf("container %s of node %s has no process: %w", id, n.name, err)
	}
	return c, nil
}

// Status returns a field of the first process's /proc/PID/status.
func (c Container) Status(field string) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strings.Join(strings.Fields(value), " "), nil
		}
	}
	return "", fmt.Errorf("process %d has no %s in its status", c.PID, field)
}

// Environment returns an environment variable of the first process, or "" if it is not set.
func (c Container) Environment(name string) (string, error) {
	p, err := procfs.NewProc(c.PID)
	if err != nil {
		return "", err
	}
	all, err := p.Environ()
	for _, variable := range all {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value, nil
		}
	}
	return "", err
}

// Memory returns a value of the container's memory cgroup, in bytes, such as memory.max_usage_in_bytes.
func (c Container) Memory(file string) (bytes int64, err error) {
	text, err := os.ReadFile(filepath.Join(c.memory, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// MountOptions returns the options of a mount that the first process sees, or nil if there is none.
func (c Container) MountOptions(at string) map[string]string {
	mounts, _ := procfs.GetProcMounts(c.PID)
	for _, m := range mounts {
		if m.MountPoint == at {
			return m.Options
		}
	}
	return nil
}
