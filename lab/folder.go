//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Folder is a temporary folder. It ends with Remove, or with the process that created it.
type Folder struct {
	// Path is absolute.
	Path   string
	reaper *reaper
}

// NewFolder creates a folder. progress gets a line for long operations: the first time, it builds the reaper.
func NewFolder(ctx context.Context, name string, progress io.Writer) (*Folder, error) {
	program, err := build(ctx, progress, reaperProgram())
	if err != nil {
		return nil, err
	}
	return newFolder(program, name)
}

// newFolder creates a folder that a reaper, the program, removes.
func newFolder(program, name string) (*Folder, error) {
	dir, err := os.MkdirTemp("", "wmco-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder: %w", err)
	}
	r, err := startReaper(program, 0, "folder", dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &Folder{Path: dir, reaper: r}, nil
}

// Remove removes the folder with its content. It may be called on nil.
func (f *Folder) Remove() {
	if f != nil {
		f.reaper.stop()
	}
}
