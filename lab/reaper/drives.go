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

	"github.com/windows-machine-config/wmco/lab/guestapi"
	"github.com/windows-machine-config/wmco/lab/hostspec"
)

// drivePrefix is the Wine prefix of a container.
func drivePrefix(name string) string { return filepath.Join(hostspec.Drives, name, "prefix") }

// driveOf is the name of the drive of a container whose layers are in a folder of the host.
func driveOf(root string) string { return root[strings.LastIndexAny(root, `\/`)+1:] }

// serveDrives creates and removes drives of containers for the programs of the host, which cannot mount.
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
		return fmt.Errorf("reading which drive to change: %w", err)
	}
	var d guestapi.Drive
	if err := json.Unmarshal(line, &d); err != nil {
		return fmt.Errorf("reading which drive to change: %w", err)
	}
	if d.Remove {
		return removeDrive(driveOf(d.Root))
	}
	return h.makeDrive(d)
}

// makeDrive mounts the drive C: of a container with what the container mounts, and prepares its limits, network and names.
func (h host) makeDrive(d guestapi.Drive) error {
	name := driveOf(d.Root)
	if err := removeDrive(name); err != nil {
		return err
	}
	root, err := existing(driveC, d.Root)
	if err != nil {
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
		if err := mountLayers(d, root, c); err != nil {
			return err
		}
	}
	slices.SortStableFunc(d.Mounts, func(a, b guestapi.Mount) int { return len(elements(a.ContainerPath)) - len(elements(b.ContainerPath)) })
	for _, m := range d.Mounts {
		source, err := existing(driveC, m.HostPath)
		if err != nil {
			return err
		}
		if err := mountInto(c, source, m.ContainerPath, m.ReadOnly); err != nil {
			return err
		}
	}
	return errors.Join(h.limit(name, d.Limits), linkNetwork(name, d.Namespace), writeResolver(d), writeName(name, d.Host))
}

// mountLayers mounts the layers of a container as drive C:, with the host's Windows in it.
func mountLayers(d guestapi.Drive, root, c string) error {
	if err := bind(root, c); err != nil {
		return err
	}
	if err := mountWindows(driveOf(d.Root), c); err != nil {
		return err
	}
	// Processes know their program by the path that the host started it by.
	return mountInto(c, root, d.Root, false)
}

// mountWindows mounts the host's Windows read-only, with folders of the container's own where Windows has files of its own.
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
		return fmt.Errorf("reading what to mount: %w", err)
	}
	target, err := placeholder(c, path, info.IsDir())
	if err != nil {
		return err
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

// removeDrive unmounts a drive with everything in it. Open files stay open.
func removeDrive(name string) error {
	err := syscall.Unmount(drivePrefix(name), syscall.MNT_DETACH)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) { // nothing is mounted
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

// elements are the names in a path of drive C:.
func elements(path string) []string {
	path = strings.ReplaceAll(strings.TrimPrefix(path, `\\?\`), `\`, "/")
	if len(path) > 1 && path[1] == ':' {
		path = path[2:]
	}
	return strings.FieldsFunc(filepath.Clean("/"+path), func(r rune) bool { return r == '/' })
}

// entry is the name of a file in a folder, whatever its case; "" if there is none.
func entry(dir, name string) string {
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return name
	}
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		if strings.EqualFold(e.Name(), name) {
			return e.Name()
		}
	}
	return ""
}

// existing finds a path of a drive C:.
func existing(c, path string) (string, error) {
	at := c
	for _, name := range elements(path) {
		found := entry(at, name)
		if found == "" {
			return "", fmt.Errorf("finding %s: there is no %s: %w", path, name, fs.ErrNotExist)
		}
		at = filepath.Join(at, found)
	}
	return at, nil
}

// placeholder finds a path of a drive C:, and creates what is missing: folders, and an empty file or folder at the end.
func placeholder(c, path string, folder bool) (string, error) {
	at := c
	names := elements(path)
	for i, name := range names {
		if found := entry(at, name); found != "" {
			at = filepath.Join(at, found)
			continue
		}
		at = filepath.Join(at, name)
		var err error
		if i == len(names)-1 && !folder {
			err = os.WriteFile(at, nil, 0o644)
		} else {
			err = os.Mkdir(at, 0o755)
		}
		if err != nil {
			return "", fmt.Errorf("creating %s in a container: %w", path, err)
		}
	}
	return at, nil
}
