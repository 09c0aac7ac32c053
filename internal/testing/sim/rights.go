package sim

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// rights are the rights of files on drive C:. They are stored in the files' modes, so that renames keep them. The sticky bit
// marks files of an ordinary user.
type rights struct{ boot *boot }

// ordinaryUser is the owner of every object with a sticky bit.
const ordinaryUser = `WIN-SIM\user`

// modeOf returns the mode for these rights of a folder or file.
func modeOf(access hostapi.Access, isFolder bool) fs.FileMode {
	mode := map[hostapi.Access]fs.FileMode{hostapi.Private: 0o700, hostapi.Readable: 0o755, hostapi.Volumes: 0o757}[access]
	if !isFolder {
		mode &^= 0o111
	}
	return mode
}

// MakeFolder implements hostapi.Rights.
func (r rights) MakeFolder(folder string, access hostapi.Access) (created bool, err error) {
	disk := r.boot.w.Disk()
	local := disk.Local(folder)
	if _, err := os.Lstat(local); err == nil {
		return false, nil
	}
	if err := r.boot.changeFile("mkdir", folder); err != nil {
		return false, err
	}
	drive, _, _ := strings.Cut(folder, `\`)
	if err := os.MkdirAll(disk.Local(drive), 0o700); err != nil {
		return false, err
	}
	if err := os.Mkdir(local, 0o700); err != nil {
		return false, err
	}
	return true, os.Chmod(local, modeOf(access, true))
}

// Check implements hostapi.Rights.
func (r rights) Check(name string, access hostapi.Access) (matches bool, foreignOwner string, err error) {
	if r.boot.isOff() {
		return false, "", ErrPower
	}
	info, err := os.Lstat(r.boot.w.Disk().Local(name))
	switch {
	case err != nil:
		return false, "", err
	case info.Mode()&fs.ModeSticky != 0:
		return false, ordinaryUser, nil
	}
	return info.Mode().Perm() == modeOf(access, info.IsDir()), "", nil
}

// Protect implements hostapi.Rights. It does not count as a change: nothing depends on where it is interrupted.
func (r rights) Protect(name string, access hostapi.Access) error {
	if err := r.fault("protect " + name); err != nil {
		return err
	}
	local := r.boot.w.Disk().Local(name)
	info, err := os.Lstat(local)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = errors.New("it is a link, want a file or folder: remove it")
	}
	if err != nil {
		return err
	}
	return os.Chmod(local, modeOf(access, info.IsDir()))
}

func (r rights) fault(operation string) error {
	r.boot.w.mu.Lock()
	defer r.boot.w.mu.Unlock()
	if r.boot.off {
		return ErrPower
	}
	return r.boot.faultLocked(operation)
}

// ChangeOwner makes a user of the host the owner of a file or folder, with full access for everyone.
func (w *Windows) ChangeOwner(name string) error {
	return os.Chmod(w.Disk().Local(name), 0o777|fs.ModeSticky)
}

// Open permits every user of the host to create files and folders in a folder.
func (w *Windows) Open(folder string) error { return os.Chmod(w.Disk().Local(folder), 0o777) }
