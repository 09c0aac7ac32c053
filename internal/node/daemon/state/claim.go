package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Claim makes a folder and everything in it belong to Administrators alone; changes lists what it did with objects of other owners. The folder
// may be a trap: a link in its place is refused, links to folders below it are removed.
func Claim(h hostapi.Host, folder string) (changes []string, err error) {
	wasProtected, aside, err := ClaimFolder(h, folder, hostapi.Private)
	if err != nil {
		return nil, err
	}
	if aside != "" {
		changes = append(changes, aside)
	}
	err = h.Disk.Walk(folder, func(name string, info fs.FileInfo) error {
		if isLink(info) {
			if to, err := os.Stat(h.Disk.Local(name)); err == nil && to.IsDir() {
				return h.Disk.Remove(name)
			}
			return nil
		}
		if hostapi.IsAside(name) && h.Disk.RemoveUnused(name) == nil {
			return nil // no longer in use, as it was when it was replaced
		}
		if !wasProtected { // others could create it and keep it open
			aside, err := Displace(h, name)
			if err != nil {
				return err
			}
			if aside != "" {
				changes = append(changes, aside)
				return nil
			}
		}
		if err := h.MakePrivate(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return changes, fmt.Errorf("claiming %s: %w", folder, err)
	}
	return changes, nil
}

// ClaimFolder makes a folder belong to Administrators, without changing what is in it. A folder of another owner is renamed instead of taken
// over: a process that opened it earlier could still change its rights. wasProtected reports that no one else could create anything in it until
// now.
func ClaimFolder(h hostapi.Host, folder string, access hostapi.Access) (wasProtected bool, aside string, err error) {
	if err := CheckNoLink(h, folder); err != nil {
		return false, "", err
	}
	if aside, err = Displace(h, folder); err != nil {
		return false, "", err
	}
	created, err := h.Rights.MakeFolder(folder, access)
	if err != nil {
		return false, "", fmt.Errorf("creating %s: %w", folder, err)
	}
	if created {
		return true, aside, nil
	}
	if err := CheckNoLink(h, folder); err != nil {
		return false, "", err
	}
	matches, foreignOwner, err := h.Rights.Check(folder, access)
	if err == nil && foreignOwner != "" {
		err = fmt.Errorf("it belongs to %s, which keeps re-creating it", foreignOwner)
	}
	if err == nil && !matches {
		err = h.Rights.Protect(folder, access)
	}
	if err != nil {
		return false, "", fmt.Errorf("claiming %s: %w", folder, err)
	}
	return matches, aside, nil
}

// CheckNoLink refuses anything that exists and is not a folder.
func CheckNoLink(h hostapi.Host, folder string) error {
	if info, err := h.Disk.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("claiming %s: it is a link or a file instead of a folder; remove it", folder)
	}
	return nil
}

// Displace renames what belongs to neither Administrators nor Windows, so that WICD can put its own in that place, and returns a description of
// the change. Windows does not rename a folder in which a file is open.
func Displace(h hostapi.Host, name string) (change string, err error) {
	if hostapi.IsAside(name) {
		return "", nil // renamed objects are not used
	}
	_, foreignOwner, err := h.Rights.Check(name, hostapi.Private)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the owner of %s: %w", name, err)
	}
	if foreignOwner == "" {
		return "", nil
	}
	aside, err := h.Disk.StepAside(name)
	if err != nil {
		return "", fmt.Errorf("renaming %s, which belongs to %s instead of Administrators: %w; remove it, or, if you trust its content, run: "+
			"icacls %s /setowner *S-1-5-32-544 /t /c", name, foreignOwner, err, name)
	}
	return fmt.Sprintf("%s belonged to %s and was renamed to %s", name, foreignOwner, aside), nil
}

// isLink reports whether info is a symbolic link or a Windows junction, which Go calls irregular.
func isLink(info fs.FileInfo) bool { return info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 }
