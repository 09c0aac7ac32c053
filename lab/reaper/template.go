//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// makeTemplate creates a Windows installation that has never booted as a host. It is PID 1 of its own namespaces, like runHost.
func makeTemplate(dir string) error {
	var spec hostspec.Template
	if err := hostspec.Read(dir, &spec); err != nil {
		return err
	}
	go func() { // exits with the lab
		for range commands() {
		}
		os.Exit(1)
	}()
	files := map[string][]byte{} // must be read before /tmp is replaced
	for target, source := range spec.Files {
		raw, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("reading a file for the template: %w", err)
		}
		files[target] = raw
	}
	if err := privateMounts(); err != nil {
		return err
	}
	if err := os.MkdirAll(spec.Prefix, 0o755); err != nil {
		return fmt.Errorf("creating the template: %w", err)
	}
	if err := bind(spec.Prefix, prefix); err != nil {
		return err
	}
	if err := isolate(dir, "template", map[string]string{"template": "127.0.1.1"}); err != nil {
		return err
	}
	if err := wineRun(spec.Wine.Loader, nil, "wineboot.exe", "--init"); err != nil {
		return err
	}
	if err := wineRun(spec.Wine.Server, nil, "-w"); err != nil {
		return err
	}
	for target, content := range files {
		if err := place(hostspec.OnDrive(driveC, target), content); err != nil {
			return err
		}
	}
	return configure(spec)
}

// configure writes the registry and creates services with Windows programs.
func configure(spec hostspec.Template) error {
	entries, err := json.Marshal(spec.Registry)
	if err != nil {
		return fmt.Errorf("encoding the registry entries: %w", err)
	}
	if err := wineRun(spec.Wine.Loader, bytes.NewReader(entries), guestapi.GuestProgram, "setup"); err != nil {
		return err
	}
	if err := wineRun(spec.Wine.Server, nil, "-w"); err != nil {
		return err
	}
	// Drive Z: would be the root folder of the lab's machine.
	if err := os.Remove(filepath.Join(prefix, "dosdevices", "z:")); err != nil {
		return fmt.Errorf("removing drive Z: %w", err)
	}
	return nil
}

func wineRun(program string, stdin io.Reader, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Env = wineEnvironment()
	cmd.Dir = "/"
	cmd.Stdin = stdin
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// place replaces a file.
func place(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating a folder of the template: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a file of Wine: %w", err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		return fmt.Errorf("writing a file of the template: %w", err)
	}
	return nil
}
