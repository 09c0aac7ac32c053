//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// runService runs a program like run. It is PID 1 of its own namespaces: with it, every process that the program started ends,
// whichever user it runs as. Shared memory, which the kernel would keep, is in the folder as well.
func runService(dir string, command []string) error {
	shared := filepath.Join(dir, "shm")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return fmt.Errorf("creating the service's folder: %w", err)
	}
	if err := os.Chmod(shared, 0o777); err != nil { // other users cannot enter the parent folder
		return fmt.Errorf("opening the service's folder: %w", err)
	}
	if err := privateMounts(); err != nil {
		return err
	}
	if err := bind(dir, hostspec.ServiceFolder); err != nil {
		return err
	}
	if err := bind(filepath.Join(hostspec.ServiceFolder, "shm"), "/dev/shm"); err != nil { // last: it may hide dir itself
		return err
	}
	return run(filepath.Join(hostspec.ServiceFolder, hostspec.ServiceLog), command)
}
