//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// A linuxNode is a Linux node, from the point of view of its first process.
type linuxNode struct {
	dir  string // the lab's folder for the node
	spec hostspec.LinuxNode
}

// initLinuxNode is the first process of a Linux node, in its own namespaces: when it exits, the kernel kills all processes of the node.
// It starts programs on commands of the lab.
func initLinuxNode(dir string) error {
	n := linuxNode{dir: dir}
	if err := hostspec.Read(dir, &n.spec); err != nil {
		return err
	}
	for _, step := range []func() error{n.mountKernel, n.mountFolders, n.mountSettings, n.mountNames, n.addServiceAddress} {
		if err := step(); err != nil {
			return err
		}
	}
	// Containers must see mounts of the kubelet, such as their tokens.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts: %w", err)
	}
	if err := syscall.Sethostname([]byte(n.spec.Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, hostspec.LinuxNodeReady), nil, 0o644); err != nil {
		return err
	}
	go reapOrphans()
	for line := range commands() {
		if err := n.execute(line); err != nil {
			return err
		}
	}
	return nil // this is PID 1: when it exits, the kernel kills all other processes
}

// mountKernel mounts the kernel's file systems for the node's own namespaces.
func (n linuxNode) mountKernel() error {
	if err := privateMounts(); err != nil {
		return err
	}
	hierarchies, err := cgroups() // in the cgroup namespace, whose root is the node's cgroup
	if err != nil {
		return err
	}
	mounts := []struct{ kind, target, options string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"tmpfs", cgroupRoot, "mode=755"}, {"tmpfs", "/run", "mode=755"},
	}
	for _, h := range hierarchies {
		options := h.options
		if h.name() != h.options {
			options = "none," + options // a hierarchy without controllers
		}
		mounts = append(mounts, struct{ kind, target, options string }{"cgroup", filepath.Join(cgroupRoot, h.name()), options})
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.kind, m.target, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	return nil
}

// mountFolders mounts the node's own /var, where the kubelet and containerd have fixed paths.
func (n linuxNode) mountFolders() error {
	own := filepath.Join(n.dir, hostspec.LinuxNodeVar)
	for _, folder := range []string{"lib/kubelet", "lib/containerd", "log", "tmp"} {
		if err := os.MkdirAll(filepath.Join(own, folder), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(own, "run")); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return bind(own, "/var")
}

// mountSettings mounts files with the kernel settings that the kubelet requires. Otherwise the kubelet would change those of
// the whole machine.
func (n linuxNode) mountSettings() error {
	for path, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		if err := n.mountFile(filepath.Join("/proc/sys", path), value+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// mountNames mounts the node's own files for name resolution.
func (n linuxNode) mountNames() error {
	return errors.Join(
		n.mountFile("/etc/resolv.conf", ""),
		n.mountFile("/etc/hosts", "127.0.0.1 localhost\n127.0.0.1 "+n.spec.Name+"\n"))
}

// mountFile mounts a new file with the content over a file.
func (n linuxNode) mountFile(target, content string) error {
	source := filepath.Join(n.dir, "files", strings.ReplaceAll(strings.Trim(target, "/"), "/", "."))
	if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(source, []byte(content), 0o644); err != nil {
		return err
	}
	return bind(source, target)
}

// addServiceAddress adds the address of Service kubernetes to the node. The lab listens there, in place of kube-proxy.
func (n linuxNode) addServiceAddress() error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback link: %w", err)
	}
	address, err := netlink.ParseAddr(n.spec.ServiceAddress + "/32")
	if err == nil {
		err = netlink.AddrAdd(link, address)
	}
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("adding address %s: %w", n.spec.ServiceAddress, err)
	}
	return nil
}

// execute executes the command "start <program>".
func (n linuxNode) execute(line string) error {
	name, isStart := strings.CutPrefix(line, "start ")
	command := n.spec.Programs[name]
	if !isStart || len(command) == 0 {
		return fmt.Errorf("got command %q, want start with the name of a program", line)
	}
	log, err := os.OpenFile(filepath.Join(n.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = spawn("/", []string{"PATH=" + n.spec.Path, "HOME=/"}, log, &syscall.SysProcAttr{Setsid: true}, command)
	return err
}

// reapOrphans reaps all exited processes, because orphans become children of this process.
func reapOrphans() {
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(-1, &status, 0, nil); err == syscall.ECHILD {
			time.Sleep(20 * time.Millisecond)
		}
	}
}
