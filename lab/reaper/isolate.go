//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// Paths of Windows in a host's mount namespace.
const (
	prefix = hostspec.Prefix
	driveC = prefix + "/drive_c"
)

// wineEnvironment returns the complete environment of Wine on a host.
func wineEnvironment() []string {
	return []string{
		"WINEPREFIX=" + prefix,
		"WINEARCH=win64",
		"WINEDEBUG=-all",
		"WINEDLLOVERRIDES=pdh,shutdown.exe,powershell.exe=n;mscoree,mshtml=", // the lab's instead of Wine's; neither Mono nor Gecko
		"PATH=/usr/bin:/bin",
		"HOME=/tmp",
		"LANG=C.UTF-8",
	}
}

// privateMounts keeps mounts from propagating to other mount namespaces.
func privateMounts() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("changing the propagation of mounts to private: %w", err)
	}
	return nil
}

// mountTemplate mounts a template with a writable layer for the host. If the file system does not support overlays, as in some
// containers, it copies the template.
func mountTemplate(template, dir string) error {
	if err := privateMounts(); err != nil {
		return err
	}
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("creating the host's layer: %w", err)
		}
	}
	copied := filepath.Join(dir, "copy")
	if _, err := os.Stat(copied); err != nil {
		layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", template, upper, work)
		err := syscall.Mount("overlay", prefix, "overlay", 0, layers)
		if err == nil {
			return nil
		}
		if out, err := exec.Command("cp", "-a", template, copied+".new").CombinedOutput(); err != nil {
			return fmt.Errorf("copying the template: %w: %s", err, out)
		}
		if err := os.Rename(copied+".new", copied); err != nil {
			return fmt.Errorf("renaming the copy: %w", err)
		}
	}
	return bind(copied, prefix)
}

// isolate mounts a host's own temporary folder (for the socket of Wine's server), its own /proc, and the files of /etc that Wine
// reads: the user is Administrator, only the given names can be resolved, and there is no name server.
func isolate(dir, hostname string, names map[string]string) error {
	files := map[string]string{
		"passwd":      "Administrator:x:0:0::/tmp:/bin/sh\n",
		"hosts":       hostsText(names),
		"resolv.conf": "",
		"hostname":    hostname + "\n",
	}
	etc := filepath.Join(dir, "etc")
	for _, d := range []string{etc, filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("creating the host's folders: %w", err)
		}
	}
	for file, content := range files {
		source := filepath.Join(etc, file)
		if err := os.WriteFile(source, []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing the host's files: %w", err)
		}
		if err := bind(source, filepath.Join("/etc", file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return bind(filepath.Join(dir, "tmp"), "/tmp") // last, because it can hide dir itself
}

// hostsText returns the content of /etc/hosts for names with their addresses.
func hostsText(names map[string]string) string {
	hosts := "127.0.0.1 localhost\n"
	for name, address := range names {
		hosts += address + " " + name + "\n"
	}
	return hosts
}

func bind(source, target string) error {
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", source, target, err)
	}
	return nil
}
