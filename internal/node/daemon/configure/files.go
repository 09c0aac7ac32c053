package configure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// files manages the declared files.
type files struct {
	work
	restarts restarts
	wanted   desired.Node
	// former are the files that the previous join declared.
	former []desired.File
}

// write writes the declared files, and removes those that only the previous join declared.
func (f files) write(context.Context) error {
	declared := map[string]bool{}
	for _, file := range f.wanted.Files {
		declared[file.Path] = true
		changed, err := f.writeOne(file)
		if err != nil {
			return fmt.Errorf("writing %s: %w", file.Path, err)
		}
		if changed {
			f.recordChange("%s written", file.Path)
			f.restarts.usersOf(f.wanted.Services, file.Path)
		}
	}
	for _, file := range f.former {
		isOfRegistries := strings.HasPrefix(file.Path, desired.Registries+`\`) // former versions declared these
		if declared[file.Path] || isOfRegistries || !f.Disk.Exists(file.Path) {
			continue
		}
		if err := f.Disk.Remove(file.Path); err != nil {
			return fmt.Errorf("removing %s: %w", file.Path, err)
		}
		f.recordChange("%s removed", file.Path)
	}
	return nil
}

func (f files) writeOne(file desired.File) (changed bool, err error) {
	if file.Secret {
		return f.Disk.WriteSecret(file.Path, file.Content, f.MakePrivate)
	}
	return f.Disk.WriteFile(file.Path, file.Content)
}

// correct rewrites declared files that changed: they were edited, or lost in a power failure. Their readers see them at their next start.
func (f files) correct() error {
	var errs []error
	for _, file := range f.wanted.Files {
		changed, err := f.writeOne(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("writing %s: %w", file.Path, err))
		} else if changed {
			f.recordChange("%s restored: it was modified", file.Path)
		}
	}
	return errors.Join(errs...)
}
