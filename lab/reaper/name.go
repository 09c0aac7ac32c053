//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/windows-machine-config/wmco/lab/hostspec"
)

// nameOf is the file with the host name of a container.
func nameOf(drive string) string { return filepath.Join(hostspec.Drives, drive, "hostname") }

// writeName notes the host name of a container. Without one, it has that of the host.
func writeName(drive, name string) error {
	if name == "" {
		return nil
	}
	return os.WriteFile(nameOf(drive), []byte(name), 0o644)
}

// takeName gives this thread, and the program that it becomes, the host name of a container. Wine's server reads it from there.
func takeName(drive string) error {
	name, err := os.ReadFile(nameOf(drive))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syscall.Unshare(syscall.CLONE_NEWUTS)
	}
	if err == nil {
		err = syscall.Sethostname(name)
	}
	if err != nil {
		return fmt.Errorf("taking the name of the container: %w", err)
	}
	return nil
}
