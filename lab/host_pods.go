//go:build linux

package lab

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
	"github.com/vishvananda/netlink"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// The state of a host's pods, without containerd and the kubelet.

// Processes returns the command lines of all processes of the host.
func (h *Host) Processes() ([]string, error) {
	pid, err := h.pid()
	if err != nil {
		return nil, err
	}
	all, err := processesOf(pid)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, p := range all {
		if words, err := p.CmdLine(); err == nil && len(words) > 0 { // else it has exited
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return lines, nil
}

// processesOf returns the processes of the host whose first process is this one.
func processesOf(pid int) (procfs.Procs, error) {
	own, err := procfs.NewFS(filepath.Join("/proc", strconv.Itoa(pid), "root/proc"))
	if err != nil {
		return nil, err
	}
	return own.AllProcs()
}

// Drives returns the names of the drives C: of containers that are mounted on the host.
func (h *Host) Drives() ([]string, error) {
	pid, err := h.pid()
	if err != nil {
		return nil, err
	}
	mounts, err := procfs.GetProcMounts(pid)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range mounts {
		if dir, found := strings.CutSuffix(m.MountPoint, "/prefix"); found && filepath.Dir(dir) == hostspec.Drives {
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
	all, err := processesOf(pid)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range all {
		maps, _ := p.ProcSMapsRollup() // fails if it has exited
		memory += int64(maps.Pss)
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
			found, err := endpointsOn(link)
			if err != nil {
				return err
			}
			addresses = append(addresses, found...)
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
