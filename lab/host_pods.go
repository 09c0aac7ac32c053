//go:build linux

package lab

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/windows-machine-config/wmco/lab/hostspec"
)

// The state of a host's pods, without containerd and the kubelet.

// Processes returns the command lines of all processes of the host.
func (h *Host) Processes() ([]string, error) {
	pid, err := h.pid()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "root/proc/[0-9]*/cmdline"))
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err == nil && len(raw) > 0 { // else it has exited
			lines = append(lines, string(bytes.ReplaceAll(bytes.TrimRight(raw, "\x00"), []byte{0}, []byte(" "))))
		}
	}
	return lines, nil
}

// Drives returns the names of the drives C: of containers that are mounted on the host.
func (h *Host) Drives() ([]string, error) {
	pid, err := h.pid()
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if dir, found := strings.CutSuffix(fields[4], "/prefix"); found && filepath.Dir(dir) == hostspec.Drives {
			names = append(names, filepath.Base(dir))
		}
	}
	return names, nil
}

// Usage returns the memory of all processes of the host, with each process's share of shared memory, and the size of its changes on disk.
func (h *Host) Usage() (memory, disk int64, err error) {
	pid, err := h.pid()
	if err != nil {
		return 0, 0, err
	}
	paths, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "root/proc/[0-9]*/smaps_rollup"))
	if err != nil {
		return 0, 0, err
	}
	for _, path := range paths {
		text, _ := os.ReadFile(path) // fails if it has exited
		var kilobytes int64
		if _, after, found := strings.Cut(string(text), "\nPss:"); found {
			_, _ = fmt.Sscan(after, &kilobytes)
		}
		memory += kilobytes << 10
	}
	seen := map[uint64]bool{}
	err = filepath.WalkDir(h.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it was removed meanwhile
		}
		if info, err := d.Info(); err == nil && !seen[info.Sys().(*syscall.Stat_t).Ino] {
			seen[info.Sys().(*syscall.Stat_t).Ino] = true
			disk += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return memory, disk, err
}

func computeProgram() program {
	return program{
		pkg: "containers/compute", about: "building the program that lists containers", env: []string{"GOOS=windows", "GOARCH=amd64"},
	}
}

// Containers returns the IDs of all containers of Windows' container service, including the sandbox containers of pods.
func (h *Host) Containers(ctx context.Context) ([]string, error) {
	out, err := h.compute(ctx, "list")
	return strings.Fields(out), err
}

// EndContainer terminates a container without containerd.
func (h *Host) EndContainer(ctx context.Context, id string) error {
	_, err := h.compute(ctx, "end "+id)
	return err
}

func (h *Host) compute(ctx context.Context, arguments string) (string, error) {
	output, err := h.runProgram(ctx, computeProgram(), arguments)
	if err != nil {
		return "", fmt.Errorf("listing the containers of %s: %w", h.name, err)
	}
	return output, nil
}

// PodAddresses returns the addresses of the host's endpoints: those of pods behind their links, others on the loopback link.
func (h *Host) PodAddresses(context.Context) (addresses []string, err error) {
	pid, err := h.pid()
	if err != nil {
		return nil, err
	}
	err = inNamespace(pid, func() error {
		all, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("listing links: %w", err)
		}
		for _, link := range all {
			of, err := endpointsOn(link)
			if err != nil {
				return err
			}
			addresses = append(addresses, of...)
		}
		return nil
	})
	slices.Sort(addresses)
	return addresses, err
}

func endpointsOn(link netlink.Link) (addresses []string, err error) {
	switch name := link.Attrs().Name; {
	case name == "lo":
		all, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			return nil, fmt.Errorf("listing addresses: %w", err)
		}
		for _, a := range all {
			if !a.IP.IsLoopback() {
				addresses = append(addresses, a.IP.String())
			}
		}
	case strings.HasPrefix(name, hostspec.PodLinkPrefix):
		all, err := netlink.RouteList(link, netlink.FAMILY_V4)
		if err != nil {
			return nil, fmt.Errorf("listing routes: %w", err)
		}
		for _, r := range all {
			addresses = append(addresses, r.Dst.IP.String())
		}
	}
	return addresses, nil
}
