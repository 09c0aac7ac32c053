package sshserver

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
)

// files serves the names of one file transfer. It receives names that are absolute, clean and use forward slashes.
type files struct {
	home, root string
	endless    bool   // folders list endless files
	wrote      func() // called for each file opened for writing
	arrived    func(local string)
	heldFor    time.Duration // see Quirks.HeldFor

	mu   sync.Mutex
	held map[string]*hold
}

// hold is a scanner's hold on a file.
type hold struct {
	until    time.Time
	attempts int
}

// refusal returns the error of renaming a file that a scanner holds. OpenSSH's code depends on Windows' error: both are possible.
func (f *files) refusal(name string) error {
	if f.heldFor == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[name]
	if h == nil {
		h = &hold{until: time.Now().Add(f.heldFor)}
		if f.held == nil {
			f.held = map[string]*hold{}
		}
		f.held[name] = h
	}
	h.attempts++
	switch {
	case !time.Now().Before(h.until):
		return nil
	case h.attempts%2 == 0:
		return fmt.Errorf("renaming %s: another process is using the file", name)
	}
	return os.ErrPermission
}

// local returns the local path of a client's name: /C:/k/x is <root>/C/k/x, or C:\k\x on Windows without a root.
func (f *files) local(name string) string {
	if letter, rest, ok := cutDrive(name); ok {
		if f.root != "" {
			return filepath.Join(f.root, strings.ToUpper(letter), filepath.FromSlash(rest))
		}
		if windows := letter + ":/" + rest; filepath.VolumeName(windows) != "" {
			return filepath.Clean(filepath.FromSlash(windows))
		}
	}
	return filepath.Join(f.root, filepath.FromSlash(name))
}

// cutDrive returns C and k/x for /C:/k/x. The last drive of a name counts: a client's C:/k/x without a leading slash arrives as
// <home>/C:/k/x.
func cutDrive(name string) (letter, rest string, ok bool) {
	before, rest, found := cutLast(name+"/", ":/")
	if !found || len(before) < 2 || before[len(before)-2] != '/' {
		return "", "", false
	}
	return before[len(before)-1:], strings.TrimSuffix(rest, "/"), true
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// remote returns the client's name of a local folder; it is the inverse of local.
func (f *files) remote(folder string) string {
	name := filepath.ToSlash(folder)
	if f.root != "" {
		name = strings.TrimPrefix(name, filepath.ToSlash(filepath.Clean(f.root)))
		if letter, rest, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/"); len(letter) == 1 {
			name = letter + ":/" + rest
		}
	}
	return "/" + strings.TrimPrefix(name, "/")
}

// Fileread opens a file for reading.
func (f *files) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	return os.Open(f.local(r.Filepath))
}

// Filewrite opens a file for writing.
func (f *files) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	return f.open(r, os.O_WRONLY)
}

// OpenFile opens a file for reading and writing.
func (f *files) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) {
	return f.open(r, os.O_RDWR)
}

func (f *files) open(r *sftp.Request, mode int) (*os.File, error) {
	requested := r.Pflags()
	if requested.Creat {
		mode |= os.O_CREATE
	}
	if requested.Trunc {
		mode |= os.O_TRUNC
	}
	if requested.Excl {
		mode |= os.O_EXCL
	}
	file, err := os.OpenFile(f.local(r.Filepath), mode, 0o644)
	if err != nil {
		return nil, err
	}
	f.wrote()
	return file, nil
}

// Filecmd changes names and attributes.
func (f *files) Filecmd(r *sftp.Request) error {
	name := f.local(r.Filepath)
	switch r.Method {
	case "Mkdir":
		return os.Mkdir(name, 0o755)
	case "Remove", "Rmdir":
		return os.Remove(name)
	case "Rename":
		if _, err := os.Lstat(f.local(r.Target)); err == nil {
			return fmt.Errorf("renaming %s: %s exists", r.Filepath, r.Target) // as OpenSSH's rename does
		}
		return f.rename(r)
	case "Setstat":
		return setAttributes(name, r)
	}
	return sftp.ErrSSHFxOpUnsupported
}

func setAttributes(name string, r *sftp.Request) error {
	set, to := r.AttrFlags(), r.Attributes()
	if set.Size {
		if err := os.Truncate(name, int64(to.Size)); err != nil {
			return err
		}
	}
	if set.Permissions {
		if err := os.Chmod(name, to.FileMode().Perm()); err != nil {
			return err
		}
	}
	if set.Acmodtime {
		return os.Chtimes(name, time.Unix(int64(to.Atime), 0), time.Unix(int64(to.Mtime), 0))
	}
	return nil
}

// PosixRename renames a file over another.
func (f *files) PosixRename(r *sftp.Request) error {
	return f.rename(r)
}

func (f *files) rename(r *sftp.Request) error {
	if err := f.refusal(r.Filepath); err != nil {
		return err
	}
	err := os.Rename(f.local(r.Filepath), f.local(r.Target))
	if err == nil && f.arrived != nil {
		f.arrived(f.local(r.Target))
	}
	return err
}

// Filelist lists a folder or describes a file.
func (f *files) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method == "List" && f.endless {
		info, err := os.Stat(f.home)
		return endless{info}, err
	}
	if r.Method == "List" {
		entries, err := os.ReadDir(f.local(r.Filepath))
		if err != nil {
			return nil, err
		}
		var l listing
		for _, e := range entries {
			if info, err := e.Info(); err == nil { // otherwise it was removed
				l = append(l, info)
			}
		}
		return l, nil
	}
	return described(os.Stat(f.local(r.Filepath)))
}

// Lstat describes a file without following a link.
func (f *files) Lstat(r *sftp.Request) (sftp.ListerAt, error) {
	return described(os.Lstat(f.local(r.Filepath)))
}

func described(info fs.FileInfo, err error) (sftp.ListerAt, error) {
	if err != nil {
		return nil, err
	}
	return listing{info}, nil
}

// listing is an answer in the form that the SFTP library requires.
type listing []fs.FileInfo

// ListAt copies entries, starting with the given one.
func (l listing) ListAt(into []fs.FileInfo, from int64) (int, error) {
	if from >= int64(len(l)) {
		return 0, io.EOF
	}
	n := copy(into, l[from:])
	if n < len(into) {
		return n, io.EOF
	}
	return n, nil
}

// endless is a listing that never ends.
type endless struct{ fs.FileInfo }

// ListAt returns the same entry repeatedly.
func (e endless) ListAt(into []fs.FileInfo, _ int64) (int, error) {
	for i := range into {
		into[i] = e.FileInfo
	}
	return len(into), nil
}
