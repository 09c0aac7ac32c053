//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// runService runs a program like run. It is PID 1 of its own namespaces: when it exits, the kernel kills all processes that the program
// started, regardless of their user. The folder also contains shared memory, which the kernel would not remove.
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
	if err := bind(filepath.Join(hostspec.ServiceFolder, "shm"), "/dev/shm"); err != nil { // last, because it can hide dir itself
		return err
	}
	return run(filepath.Join(hostspec.ServiceFolder, hostspec.ServiceLog), command)
}
