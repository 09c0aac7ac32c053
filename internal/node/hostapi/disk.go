package hostapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Disk is drive C:. Its files have Windows names such as C:\k\kubelet.conf; Root is where they are on this machine.
//
// Files are replaced atomically: the content is written to a file with the suffix .new, flushed to disk, and renamed. A leftover of an interrupted
// write is overwritten by the next one.
type Disk struct {
	// Root is a folder that represents the computer: C:\k\x is <Root>/C/k/x. It is empty on Windows, where names are used as they are.
	Root string
	// Before, if set, is called before each change of a file; an error prevents the change. Tests use it to simulate power failures.
	Before func(op, name string) error
	// BeforeRead, if set, is called before a file is opened for reading; an error prevents it.
	BeforeRead func(name string) error
}

// Suffixes of the files that are created next to a file while it is replaced.
const (
	TemporarySuffix = ".new"
	replacedSuffix  = ".old"
)

// Local returns the path of a file on this machine: the name itself, or its path below Root.
func (d Disk) Local(name string) string {
	if d.Root == "" {
		return name
	}
	drive, rest, _ := strings.Cut(name, ":")
	return filepath.Join(d.Root, drive, filepath.FromSlash(strings.ReplaceAll(rest, `\`, "/")))
}

// Parent returns the folder of a Windows name.
func Parent(name string) string { return name[:max(strings.LastIndexByte(name, '\\'), 0)] }

// Allow returns an error if Before prevents the change.
func (d Disk) Allow(op, name string) error {
	if d.Before == nil {
		return nil
	}
	return d.Before(op, name)
}

// Stat describes a file or folder without following links.
func (d Disk) Stat(name string) (fs.FileInfo, error) { return os.Lstat(d.Local(name)) }

// Exists reports whether a file or folder has this name.
func (d Disk) Exists(name string) bool {
	_, err := d.Stat(name)
	return err == nil
}

// List returns the sorted names in a folder. It returns none for an absent folder.
func (d Disk) List(folder string) ([]string, error) {
	entries, err := os.ReadDir(d.Local(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// MakeFolder creates a folder and its parents. An existing one is not an error.
func (d Disk) MakeFolder(name string) (created bool, err error) {
	if info, err := d.Stat(name); err == nil && info.IsDir() {
		return false, nil
	}
	return true, retryWhileHeld(func() error {
		if err := d.Allow("mkdir", name); err != nil {
			return err
		}
		return os.MkdirAll(d.Local(name), 0o700)
	})
}

// WriteFile writes a file unless it already has this content, and creates its folder. On Windows the file inherits the rights of its folder;
// elsewhere only its owner may read it.
func (d Disk) WriteFile(name, content string) (changed bool, err error) {
	if old, err := d.Read(name); err == nil && bytes.Equal(old, []byte(content)) {
		return false, nil
	}
	if _, err := d.MakeFolder(Parent(name)); err != nil {
		return false, err
	}
	return true, d.Replace(name, func(temporary string) error { return d.create(temporary, content) })
}

// Prepare does the part of WriteFile that needs disk space. commit does the rest and cannot fail because the disk is full.
func (d Disk) Prepare(name, content string) (commit func() error, err error) {
	if old, err := d.Read(name); err == nil && bytes.Equal(old, []byte(content)) {
		return func() error { return nil }, nil
	}
	if _, err := d.MakeFolder(Parent(name)); err != nil {
		return nil, err
	}
	if err := d.create(name+TemporarySuffix, content); err != nil {
		return nil, err
	}
	return func() error { return d.Replace(name, func(string) error { return nil }) }, nil
}

// WriteSecret is like WriteFile for a file that no other user can read at any time, regardless of the rights to its folder: the file is created in
// C:\k\state, where only SYSTEM and Administrators may read, protect restricts it before the content is written, and a rename on the same drive
// preserves that. If the file already has the content, only protect is called.
func (d Disk) WriteSecret(name, content string, protect func(name string) error) (changed bool, err error) {
	if old, err := d.Read(name); err == nil && bytes.Equal(old, []byte(content)) {
		return false, protect(name)
	}
	for _, folder := range []string{Parent(name), desired.State} {
		if _, err := d.MakeFolder(folder); err != nil {
			return false, err
		}
	}
	temporary := desired.State + `\` + name[len(Parent(name))+1:] + TemporarySuffix
	return true, d.replaceWith(name, temporary, func(temporary string) error {
		f, err := d.Create(temporary)
		if err != nil {
			return err
		}
		return d.Fill(f, temporary, content, protect)
	})
}

// create writes a new file. It first removes an existing one, a leftover with unknown rights.
func (d Disk) create(name, content string) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	return d.Fill(f, name, content, func(string) error { return nil })
}

// Fill calls protect, writes the content of a new file, flushes it to disk and closes it.
func (d Disk) Fill(f *os.File, name, content string, protect func(name string) error) error {
	if err := protect(name); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := d.Allow("write", name); err != nil {
		_, _ = f.WriteString(content[:len(content)/2]) // as a power failure would leave it
		return errors.Join(err, f.Close())
	}
	if _, err := io.WriteString(f, content); err != nil {
		return errors.Join(err, f.Close())
	}
	return d.Finish(f, name)
}

// Create creates a new, empty file and removes an existing one.
func (d Disk) Create(name string) (*os.File, error) {
	if err := d.Remove(name); err != nil {
		return nil, err
	}
	var f *os.File
	err := retryWhileHeld(func() (err error) {
		if err := d.Allow("create", name); err != nil {
			return err
		}
		f, err = os.OpenFile(d.Local(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	return f, err
}

// Finish flushes a file to disk and closes it.
func (d Disk) Finish(f *os.File, name string) error {
	err := d.Allow("sync", name)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Append opens a file for appending, creates it if it is absent, and returns its size.
func (d Disk) Append(name string) (f *os.File, size int64, err error) {
	err = retryWhileHeld(func() (err error) {
		if err := d.Allow("append", name); err != nil {
			return err
		}
		f, err = os.OpenFile(d.Local(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Link gives a file a second name in an existing folder. It changes nothing if both names already refer to the same file.
func (d Disk) Link(from, to string) (changed bool, err error) {
	source, err := d.Stat(from)
	if err != nil {
		return false, err
	}
	if target, err := d.Stat(to); err == nil && os.SameFile(source, target) {
		return false, nil
	}
	return true, d.Replace(to, func(temporary string) error {
		if err := d.Remove(temporary); err != nil {
			return err
		}
		return retryWhileHeld(func() error { return d.link(from, temporary) })
	})
}

func (d Disk) link(from, to string) error {
	if err := d.Allow("link", to); err != nil {
		return err
	}
	return os.Link(d.Local(from), d.Local(to))
}

// LinkOpen gives a file that programs may have open a second name, and removes an existing file with that name. Link cannot do that, because Windows
// cannot rename a file that a Go program has open.
func (d Disk) LinkOpen(from, to string) error {
	source, err := d.Stat(from)
	if err != nil {
		return err
	}
	if target, err := d.Stat(to); err == nil && os.SameFile(source, target) {
		return nil
	}
	if err := d.Remove(to); err != nil {
		return err
	}
	return retryWhileHeld(func() error { return d.link(from, to) })
}

// Replace replaces a file with the one that write creates next to it. Windows refuses to replace a running program but allows renaming it. In this
// case, the old file is renamed with StepAside, and removed once it is no longer in use.
func (d Disk) Replace(name string, write func(temporary string) error) error {
	return d.replaceWith(name, name+TemporarySuffix, write)
}

// replaceWith is like Replace with the name of the temporary file, which may be anywhere on the drive.
func (d Disk) replaceWith(name, temporary string, write func(temporary string) error) error {
	if err := write(temporary); err != nil {
		return err
	}
	return retryWhileHeld(func() error { return d.moveOver(temporary, name) })
}

// moveOver renames temporary to name. If the existing file cannot be replaced, it is renamed with StepAside.
func (d Disk) moveOver(temporary, name string) error {
	err := d.rename(temporary, name)
	if err == nil || !d.Exists(name) {
		return err
	}
	aside, asideErr := d.StepAside(name)
	if asideErr != nil {
		return errors.Join(err, asideErr)
	}
	if retryErr := d.rename(temporary, name); retryErr != nil {
		return errors.Join(retryErr, d.rename(aside, name))
	}
	_ = d.remove(aside) // still in use: a later command removes it
	return nil
}

// maxAsides is how many old versions of one file can be in use at the same time.
const maxAsides = 8

// IsAside reports whether a name is one that StepAside gives.
func IsAside(name string) bool {
	end := len(name) - 1
	return end >= 0 && strings.HasSuffix(name[:end], replacedSuffix) && name[end] >= '0' && name[end] < '0'+maxAsides
}

// StepAside appends .old and a digit to the name of a file. The file may be in use, or belong to a foreign owner (state.Displace), so it
// stays; WICD's own in C:\k are removed by the next command (state.Claim).
func (d Disk) StepAside(name string) (aside string, err error) {
	for n := range maxAsides {
		aside = fmt.Sprintf("%s%s%d", name, replacedSuffix, n)
		if err = d.remove(aside); err == nil {
			return aside, d.rename(name, aside)
		}
	}
	return "", err
}

// Clear frees the name of a file: it removes the file, or renames it while it is in use. Windows refuses to remove a running program by any of its
// names but allows renaming it. The next command removes what is no longer in use.
func (d Disk) Clear(name string) error {
	return retryWhileHeld(func() error {
		err := d.remove(name)
		if err == nil {
			return nil
		}
		if _, asideErr := d.StepAside(name); asideErr != nil {
			return errors.Join(err, asideErr)
		}
		return nil
	})
}

// Truncate makes a file empty.
func (d Disk) Truncate(name string) error {
	return retryWhileHeld(func() error {
		if err := d.Allow("truncate", name); err != nil {
			return err
		}
		return os.Truncate(d.Local(name), 0)
	})
}

// Rename renames a file and replaces an existing one.
func (d Disk) Rename(from, to string) error {
	return retryWhileHeld(func() error { return d.rename(from, to) })
}

func (d Disk) rename(from, to string) error {
	if err := d.Allow("rename", to); err != nil {
		return err
	}
	return os.Rename(d.Local(from), d.Local(to))
}

// Remove removes a file or an empty folder. An absent one is not an error.
func (d Disk) Remove(name string) error {
	return retryWhileHeld(func() error { return d.remove(name) })
}

// RemoveUnused is like Remove but does not wait. It is for programs that may run; a later call removes those.
func (d Disk) RemoveUnused(name string) error { return d.remove(name) }

func (d Disk) remove(name string) error {
	if !d.Exists(name) {
		return nil
	}
	if err := d.Allow("remove", name); err != nil {
		return err
	}
	if err := os.Remove(d.Local(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Walk calls visit for a folder and everything below it, top down. It does not follow links.
func (d Disk) Walk(name string, visit func(name string, info fs.FileInfo) error) error {
	info, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed in the meantime
	}
	if err != nil {
		return err
	}
	if err := visit(name, info); err != nil || !info.IsDir() {
		return err
	}
	names, err := d.List(name)
	if err != nil {
		return err
	}
	for _, child := range names {
		if err := d.Walk(name+`\`+child, visit); err != nil {
			return err
		}
	}
	return nil
}
