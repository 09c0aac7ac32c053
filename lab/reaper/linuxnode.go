//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// runLinuxNode runs a Linux node until the lab ends. The node's processes are in a child cgroup, which is the root of their
// cgroup namespace, so that the kubelet and containerd create cgroups only there.
func runLinuxNode(dir string) error {
	var spec hostspec.LinuxNode
	if err := hostspec.Read(dir, &spec); err != nil {
		return err
	}
	hierarchies, err := cgroups()
	if err != nil {
		return err
	}
	defer removeCgroups(hierarchies, spec.Cgroup)
	for _, h := range hierarchies {
		if err := h.enter(spec.Cgroup); err != nil {
			return err
		}
	}
	init, stdin, err := startInit(dir)
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := writeCgroup(h.folder, "cgroup.procs", "0"); err != nil { // 0 is the writing process
			return err
		}
	}
	go func() {
		_, _ = io.Copy(stdin, os.Stdin) // until the lab or the node ends
		_ = stdin.Close()
	}()
	return init.Wait()
}

// startInit starts the first process of the node.
func startInit(dir string) (*exec.Cmd, io.WriteCloser, error) {
	init := exec.Command("/proc/self/exe", "linuxnode-init", dir)
	init.Stdout, init.Stderr = os.Stdout, os.Stderr
	init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWCGROUP | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	stdin, err := init.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := init.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the node's first process: %w", err)
	}
	return init, stdin, os.WriteFile(filepath.Join(dir, hostspec.LinuxNodePID), []byte(strconv.Itoa(init.Process.Pid)), 0o644)
}

// A hierarchy is a hierarchy of cgroup version 1.
type hierarchy struct {
	// options are the mount options: the controllers or the name of the hierarchy.
	options string
	// folder is the cgroup of this process in the hierarchy.
	folder string
}

// name returns the name of the hierarchy's folder in /sys/fs/cgroup.
func (h hierarchy) name() string { return strings.TrimPrefix(h.options, "name=") }

const cgroupRoot = "/sys/fs/cgroup"

// cgroups returns the hierarchies of version 1 (proc(5), cgroups(7)).
func cgroups() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("reading this process's cgroups: %w", err)
	}
	var all []hierarchy
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] == "" {
			continue // version 2
		}
		h := hierarchy{options: fields[1]}
		h.folder = filepath.Join(cgroupRoot, h.name(), fields[2])
		all = append(all, h)
	}
	if !slices.ContainsFunc(all, func(h hierarchy) bool { return slices.Contains(strings.Split(h.options, ","), "memory") }) {
		return nil, errors.New("this machine has no memory controller of cgroup version 1")
	}
	return all, nil
}

// enter creates a child cgroup, and moves this process there.
func (h hierarchy) enter(name string) error {
	folder := filepath.Join(h.folder, name)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating a cgroup: %w", err)
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // must be set before processes can enter
		content, err := os.ReadFile(filepath.Join(h.folder, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = writeCgroup(folder, file, string(bytes.TrimSpace(content)))
		}
		if err != nil {
			return err
		}
	}
	return writeCgroup(folder, "cgroup.procs", "0")
}

func writeCgroup(folder, file, value string) error {
	if err := os.WriteFile(filepath.Join(folder, file), []byte(value), 0o644); err != nil {
		return fmt.Errorf("writing %s of a cgroup: %w", file, err)
	}
	return nil
}

// removeCgroups removes cgroups with their descendants as soon as their processes have exited.
func removeCgroups(hierarchies []hierarchy, name string) {
	for _, h := range hierarchies {
		folder := filepath.Join(h.folder, name)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			removeTree(folder)
			if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
}

// removeTree removes folders bottom-up. The kernel removes the files of a cgroup with its folder.
func removeTree(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(folder, e.Name()))
		}
	}
	_ = os.Remove(folder)
}
