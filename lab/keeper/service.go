//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/lab/hostspec"
)

// runService keeps a program as run does. It is PID 1 of its own namespaces: with it ends every process that the program
// started, as whatever user. Shared memory, which the kernel keeps for nobody, is in the folder as well.
func runService(dir string, command []string) error {
	shared := filepath.Join(dir, "shm")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return fmt.Errorf("making the service's folder: %w", err)
	}
	if err := os.Chmod(shared, 0o777); err != nil { // nobody else can enter the folder above
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
