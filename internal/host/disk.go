package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// Disk is drive C:. Its files have Windows names, C:\k\kubelet.conf; Root says where this machine keeps them.
//
// A file gets its content whole or not at all: it is written beside under the name with the ending .new, brought
// to disk, and renamed. A leftover of a write that was cut is overwritten by the next one.
type Disk struct {
	// Root is a folder that stands for the computer: C:\k\x is <Root>/C/k/x. Empty on Windows, where a name means
	// itself.
	Root string
	// Before, when set, is called before each change of a file; its error takes the place of the change. Tests cut
	// the power with it.
	Before func(op, name string) error
}

// Endings of the files that replacing a file makes beside it.
const (
	TemporarySuffix = ".new"
	replacedSuffix  = ".old"
)

// Local is the name by which this machine knows a file: the name itself, or its place below Root.
func (d Disk) Local(name string) string {
	if d.Root == "" {
		return name
	}
	drive, rest, _ := strings.Cut(name, ":")
	return filepath.Join(d.Root, drive, filepath.FromSlash(strings.ReplaceAll(rest, `\`, "/")))
}

// Parent is the folder of a Windows name.
func Parent(name string) string { return name[:max(strings.LastIndexByte(name, '\\'), 0)] }

// Allow asks whether a change may happen.
func (d Disk) Allow(op, name string) error {
	if d.Before == nil {
		return nil
	}
	return d.Before(op, name)
}

// Read returns the content of a file. Absent, it is fs.ErrNotExist.
func (d Disk) Read(name string) ([]byte, error) { return os.ReadFile(d.Local(name)) }

// Open opens a file for reading.
func (d Disk) Open(name string) (*os.File, error) { return os.Open(d.Local(name)) }

// Stat describes a file or folder, and does not follow a link.
func (d Disk) Stat(name string) (fs.FileInfo, error) { return os.Lstat(d.Local(name)) }

// Exists tells whether there is something under a name.
func (d Disk) Exists(name string) bool {
	_, err := d.Stat(name)
	return err == nil
}

// List returns the names of what is in a folder, sorted; of an absent folder, nothing.
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

// MakeFolder makes a folder and those above it. An existing one is no error.
func (d Disk) MakeFolder(name string) (made bool, err error) {
	if info, err := d.Stat(name); err == nil && info.IsDir() {
		return false, nil
	}
	if err := d.Allow("mkdir", name); err != nil {
		return false, err
	}
	return true, os.MkdirAll(d.Local(name), 0o700)
}

// WriteFile gives a file this content, and makes its folder. It writes nothing when the file has it already. On
// Windows the file inherits the rights of its folder; elsewhere only its owner may read it.
func (d Disk) WriteFile(name, content string) (changed bool, err error) {
	if old, err := d.Read(name); err == nil && bytes.Equal(old, []byte(content)) {
		return false, nil
	}
	if _, err := d.MakeFolder(Parent(name)); err != nil {
		return false, err
	}
	return true, d.Replace(name, func(beside string) error { return d.create(beside, content) })
}

// Prepare does what WriteFile does, but for what can fail on a full disk alone: commit gives the file its content.
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

// WriteSecret does the same as WriteFile for a file that nobody else can read at any moment, whatever the rights to its folder: it comes
// about in C:\k\state, where only SYSTEM and Administrators may read, protect closes it before the content comes, and a rename on the same
// drive leaves it so. A file that has the content already is closed again.
func (d Disk) WriteSecret(name, content string, protect func(name string) error) (changed bool, err error) {
	if old, err := d.Read(name); err == nil && bytes.Equal(old, []byte(content)) {
		return false, protect(name)
	}
	for _, folder := range []string{Parent(name), desired.State} {
		if _, err := d.MakeFolder(folder); err != nil {
			return false, err
		}
	}
	elsewhere := desired.State + `\` + name[len(Parent(name))+1:] + TemporarySuffix
	return true, d.replaceWith(name, elsewhere, func(elsewhere string) error {
		f, err := d.Create(elsewhere)
		if err != nil {
			return err
		}
		return d.Fill(f, elsewhere, content, protect)
	})
}

// create makes a new file. What is there under the name, a leftover with rights we do not know, goes first.
func (d Disk) create(name, content string) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	return d.Fill(f, name, content, func(string) error { return nil })
}

// Fill writes the content of a new file, after protect was called, brings it to disk and closes it.
func (d Disk) Fill(f *os.File, name, content string, protect func(name string) error) error {
	if err := protect(name); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := d.Allow("write", name); err != nil {
		_, _ = f.WriteString(content[:len(content)/2]) // as a cut would leave it
		return errors.Join(err, f.Close())
	}
	if _, err := io.WriteString(f, content); err != nil {
		return errors.Join(err, f.Close())
	}
	return d.Finish(f, name)
}

// Create makes a new, empty file in place of what has this name.
func (d Disk) Create(name string) (*os.File, error) {
	if err := d.Remove(name); err != nil {
		return nil, err
	}
	var f *os.File
	err := patiently(func() (err error) {
		if err := d.Allow("create", name); err != nil {
			return err
		}
		f, err = os.OpenFile(d.Local(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	return f, err
}

// Finish brings a file to disk and closes it.
func (d Disk) Finish(f *os.File, name string) error {
	err := d.Allow("sync", name)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Append opens a file for appending, makes it when absent, and says how long it is.
func (d Disk) Append(name string) (f *os.File, size int64, err error) {
	if err := d.Allow("append", name); err != nil {
		return nil, 0, err
	}
	if f, err = os.OpenFile(d.Local(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Link gives a file a second name, in a folder that exists. It changes nothing when both are the same file.
func (d Disk) Link(from, to string) (changed bool, err error) {
	source, err := d.Stat(from)
	if err != nil {
		return false, err
	}
	if target, err := d.Stat(to); err == nil && os.SameFile(source, target) {
		return false, nil
	}
	return true, d.Replace(to, func(beside string) error {
		if err := d.Remove(beside); err != nil {
			return err
		}
		return patiently(func() error { return d.link(from, beside) })
	})
}

func (d Disk) link(from, to string) error {
	if err := d.Allow("link", to); err != nil {
		return err
	}
	return os.Link(d.Local(from), d.Local(to))
}

// LinkOpen gives a file that programs may have open a second name, in place of what has it. Link cannot: Windows renames no name of a file
// that a Go program has open.
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
	return patiently(func() error { return d.link(from, to) })
}

// Replace lets write make a file beside, and gives it the name. Windows refuses to replace a program that runs but
// lets it be renamed: then what has the name steps aside, and goes once nobody uses it any more.
func (d Disk) Replace(name string, write func(beside string) error) error {
	return d.replaceWith(name, name+TemporarySuffix, write)
}

// replaceWith does the same with a file beside, or elsewhere on the drive.
func (d Disk) replaceWith(name, beside string, write func(beside string) error) error {
	if err := write(beside); err != nil {
		return err
	}
	return patiently(func() error { return d.takePlace(beside, name) })
}

// takePlace gives a file the name of another, which steps aside if it cannot be replaced.
func (d Disk) takePlace(beside, name string) error {
	err := d.rename(beside, name)
	if err == nil || !d.Exists(name) {
		return err
	}
	aside, asideErr := d.StepAside(name)
	if asideErr != nil {
		return errors.Join(err, asideErr)
	}
	if again := d.rename(beside, name); again != nil {
		return errors.Join(again, d.rename(aside, name))
	}
	_ = d.remove(aside) // still in use: a later command removes it
	return nil
}

// asides is how many files of one name can have stepped aside and still be in use.
const asides = 8

// IsAside tells whether a name is that of a file that stepped aside.
func IsAside(name string) bool {
	end := len(name) - 1
	return end >= 0 && strings.HasSuffix(name[:end], replacedSuffix) && name[end] >= '0' && name[end] < '0'+asides
}

// StepAside renames a file to a name that ends in .old and a digit.
func (d Disk) StepAside(name string) (aside string, err error) {
	for n := range asides {
		aside = fmt.Sprintf("%s%s%d", name, replacedSuffix, n)
		if err = d.remove(aside); err == nil {
			return aside, d.rename(name, aside)
		}
	}
	return "", err
}

// Clear takes a name away from its file, which goes at once, or once nobody uses it any more: Windows refuses to remove a program
// that runs, by any of its names, but lets it be renamed.
func (d Disk) Clear(name string) error {
	return patiently(func() error {
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
	return patiently(func() error {
		if err := d.Allow("truncate", name); err != nil {
			return err
		}
		return os.Truncate(d.Local(name), 0)
	})
}

// Rename gives a file another name; a file of that name is replaced.
func (d Disk) Rename(from, to string) error {
	return patiently(func() error { return d.rename(from, to) })
}

func (d Disk) rename(from, to string) error {
	if err := d.Allow("rename", to); err != nil {
		return err
	}
	return os.Rename(d.Local(from), d.Local(to))
}

// Remove removes a file or an empty folder. An absent one is no error.
func (d Disk) Remove(name string) error {
	return patiently(func() error { return d.remove(name) })
}

// RemoveUnused does the same, but waits for nobody: it is for programs that may run, and go another time then.
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

// Walk calls visit for a folder, and for everything below it from the top down. It does not follow links.
func (d Disk) Walk(name string, visit func(name string, info fs.FileInfo) error) error {
	info, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
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
