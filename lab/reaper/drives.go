//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// drivePrefix returns the Wine prefix of a container.
func drivePrefix(name string) string { return filepath.Join(hostspec.Drives, name, "prefix") }

// driveOf returns the name of the drive of the container whose layers are in a folder of the host.
func driveOf(root string) string { return root[strings.LastIndexAny(root, `\/`)+1:] }

// serveDrives creates and removes drives of containers at the request of programs on the host, which cannot mount.
func (h host) serveDrives() error {
	return listen(guestapi.DrivesPort, func(conn net.Conn) {
		go func() {
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			reply(conn, guestapi.DriveDone, h.changeDrive(conn))
		}()
	})
}

func (h host) changeDrive(conn net.Conn) error {
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading a request for a drive: %w", err)
	}
	var d guestapi.Drive
	if err := json.Unmarshal(line, &d); err != nil {
		return fmt.Errorf("reading a request for a drive: %w", err)
	}
	if d.Remove {
		return removeDrive(driveOf(d.Root))
	}
	return h.makeDrive(d)
}

// makeDrive mounts drive C: of a container and the container's mounts, and prepares its limits, network and names.
func (h host) makeDrive(d guestapi.Drive) error {
	name := driveOf(d.Root)
	if err := removeDrive(name); err != nil {
		return err
	}
	at := drivePrefix(name)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("creating drive %s: %w", name, err)
	}
	if err := bind(prefix, at); err != nil {
		return err
	}
	c := filepath.Join(at, "drive_c") // of the host
	if !d.OnHost {
		if err := mountLayers(d, c); err != nil {
			return err
		}
	}
	slices.SortStableFunc(d.Mounts, func(a, b guestapi.Mount) int { return len(a.ContainerPath) - len(b.ContainerPath) })
	for _, m := range d.Mounts {
		if err := mountInto(c, hostspec.OnDrive(driveC, m.HostPath), m.ContainerPath, m.ReadOnly); err != nil {
			return err
		}
	}
	return errors.Join(h.limit(name, d.Limits), linkNetwork(name, d.Namespace), writeResolver(d), writeName(name, d.Host))
}

// mountLayers mounts the layers of a container as drive C:, with the host's Windows folder.
func mountLayers(d guestapi.Drive, c string) error {
	root := hostspec.OnDrive(driveC, d.Root)
	if err := bind(root, c); err != nil {
		return err
	}
	if err := mountWindows(driveOf(d.Root), c); err != nil {
		return err
	}
	// Processes use the path with which the host started their program.
	return mountInto(c, root, d.Root, false)
}

// mountWindows mounts the host's Windows folder read-only, except for folders in which each container has its own files.
func mountWindows(name, c string) error {
	if err := mountInto(c, filepath.Join(driveC, "windows"), "windows", true); err != nil {
		return err
	}
	for folder, path := range map[string]string{"temp": `windows\temp`, "etc": `windows\system32\drivers\etc`} {
		own := filepath.Join(hostspec.Drives, name, folder)
		if err := os.Mkdir(own, 0o755); err != nil {
			return fmt.Errorf("creating drive %s: %w", name, err)
		}
		if err := mountInto(c, own, path, false); err != nil {
			return err
		}
	}
	return nil
}

// mountInto mounts a file or a folder at a path of a drive C:.
func mountInto(c, source, path string, readOnly bool) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("reading the source of a mount: %w", err)
	}
	target := hostspec.OnDrive(c, path)
	if err := createMissing(target, info.IsDir()); err != nil {
		return fmt.Errorf("creating %s in a container: %w", path, err)
	}
	if err := bind(source, target); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	if err := syscall.Mount("", target, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mounting %s read-only: %w", target, err)
	}
	return nil
}

// createMissing creates a folder, or an empty file with its parent folders, unless it exists.
func createMissing(path string, folder bool) error {
	if folder {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// removeDrive unmounts a drive with all its mounts. Processes keep their open files.
func removeDrive(name string) error {
	err := syscall.Unmount(drivePrefix(name), syscall.MNT_DETACH)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) { // both mean that nothing is mounted
		return fmt.Errorf("unmounting drive %s: %w", name, err)
	}
	return errors.Join(removeLimits(name), os.RemoveAll(filepath.Join(hostspec.Drives, name)))
}

// removeDrives removes all drives.
func removeDrives() error {
	all, err := os.ReadDir(hostspec.Drives)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range all {
		err = errors.Join(err, removeDrive(e.Name()))
	}
	return err
}
