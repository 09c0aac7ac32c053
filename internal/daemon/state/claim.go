package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/windows-machine-config/wmco/internal/host"
)

// Claim makes a folder, and everything that is in it, belong to Administrators alone; changes is what it did with what was somebody
// else's. The folder may be somebody's trap: a link instead of it is refused, links to folders below it go.
func Claim(h host.Host, folder string) (changes []string, err error) {
	wasOurs, aside, err := ClaimFolder(h, folder, host.Private)
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
		if host.IsAside(name) && h.Disk.RemoveUnused(name) == nil {
			return nil // what was in use when it was replaced is so no more
		}
		if !wasOurs { // others could make something in it, and have it open
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

// ClaimFolder makes one folder belong to Administrators, with what is in it as it is. A folder of somebody else is put aside, and not
// taken over: who had it open before may change its rights again, whosever it is then. wasOurs tells that nobody else could make
// something in it until now.
func ClaimFolder(h host.Host, folder string, who host.Access) (wasOurs bool, aside string, err error) {
	if err := CheckNoLink(h, folder); err != nil {
		return false, "", err
	}
	if aside, err = Displace(h, folder); err != nil {
		return false, "", err
	}
	made, err := h.Rights.MakeFolder(folder, who)
	if err != nil {
		return false, "", fmt.Errorf("making %s: %w", folder, err)
	}
	if made {
		return true, aside, nil
	}
	if err := CheckNoLink(h, folder); err != nil {
		return false, "", err
	}
	ours, stranger, err := h.Rights.Look(folder, who)
	if err == nil && stranger != "" {
		err = fmt.Errorf("it belongs to %s, who makes it again and again", stranger)
	}
	if err == nil && !ours {
		err = h.Rights.Protect(folder, who)
	}
	if err != nil {
		return false, "", fmt.Errorf("claiming %s: %w", folder, err)
	}
	return ours, aside, nil
}

// CheckNoLink refuses what is there and no folder.
func CheckNoLink(h host.Host, folder string) error {
	if info, err := h.Disk.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("claiming %s: it is a link or a file, and must be a folder; remove it", folder)
	}
	return nil
}

// Displace renames what belongs to neither administrators nor Windows, so that something of ours can take its place, and says so. Windows
// renames no folder in which somebody has a file open.
func Displace(h host.Host, name string) (change string, err error) {
	if host.IsAside(name) {
		return "", nil // nobody looks there
	}
	_, stranger, err := h.Rights.Look(name, host.Private)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking whose %s is: %w", name, err)
	}
	if stranger == "" {
		return "", nil
	}
	aside, err := h.Disk.StepAside(name)
	if err != nil {
		return "", fmt.Errorf("putting %s aside, which belongs to %s and not to Administrators: %w; remove it, or, if you trust what is in it, run: "+
			"icacls %s /setowner *S-1-5-32-544 /t /c", name, stranger, err, name)
	}
	return fmt.Sprintf("%s belonged to %s, and is %s now", name, stranger, aside), nil
}

// isLink knows symbolic links, and the junctions of Windows, which Go calls irregular.
func isLink(info fs.FileInfo) bool { return info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 }
