package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Microsoft's LogMonitor.exe cannot be built here. In images that need it, this program is LogMonitor.exe, and reads the sources of type File
// only: there is no event log of an application and no ETW in Wine.

// monitorLogs starts a command and prints what files of its logs get, until the command ends.
func monitorLogs(args []string) error {
	if len(args) < 3 || args[0] != "/CONFIG" {
		return errors.New("want /CONFIG, a file and a command")
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var config struct {
		LogConfig struct {
			Sources []struct{ Type, Directory, Filter string }
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("reading %s: %w", args[1], err)
	}
	command := exec.Command(args[2], args[3:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	printed := map[string]int{}
	for {
		for _, s := range config.LogConfig.Sources {
			if s.Type == "File" {
				printNew(printed, s.Directory, s.Filter)
			}
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// printNew prints what was added to the files of a folder since the last time.
func printNew(printed map[string]int, dir, filter string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if fits, _ := filepath.Match(filter, filepath.Base(path)); err != nil || !fits {
			return nil //nolint:nilerr // it may come later
		}
		if text, err := os.ReadFile(path); err == nil && len(text) > printed[path] {
			_, _ = os.Stdout.Write(text[printed[path]:])
			printed[path] = len(text)
		}
		return nil
	})
}
