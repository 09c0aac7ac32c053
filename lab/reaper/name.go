//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// nameFile has the host name of a container.
const nameFile = "hostname"

// writeName notes the host name of a container. Without one, it has that of the host.
func writeName(drive, name string) error {
	if name == "" {
		return nil
	}
	return os.WriteFile(ownFile(drive, nameFile), []byte(name), 0o644)
}

// takeName gives this thread, and the program that it becomes, the host name of a container. Wine's server reads it from there.
func takeName(drive string) error {
	name, err := os.ReadFile(ownFile(drive, nameFile))
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
