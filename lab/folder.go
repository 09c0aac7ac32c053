//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Folder is an empty folder of its own that ends with Remove, or with the process that made it.
type Folder struct {
	// Path is absolute.
	Path   string
	keeper *keeper
}

// NewFolder makes a folder. progress gets a line for what takes long: the first time ever, the keeper is built.
func NewFolder(ctx context.Context, name string, progress io.Writer) (*Folder, error) {
	program, err := buildKeeper(ctx, progress)
	if err != nil {
		return nil, err
	}
	return newFolder(program, name)
}

// buildKeeper returns the path of the keeper's program, which is built when the cache has none.
func buildKeeper(ctx context.Context, progress io.Writer) (program string, err error) {
	c, err := openCache(progress)
	if err != nil {
		return "", err
	}
	return c.build(ctx, keeperProgram())
}

// newFolder makes a folder that a keeper, the program, removes.
func newFolder(program, name string) (*Folder, error) {
	dir, err := os.MkdirTemp("", "wmco-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	k, err := startKeeper(program, 0, "folder", dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &Folder{Path: dir, keeper: k}, nil
}

// Remove removes the folder with all that is in it. It may be called on nil.
func (f *Folder) Remove() {
	if f != nil {
		f.keeper.stop()
	}
}
