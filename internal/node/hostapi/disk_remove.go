package hostapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

// RemoveAll removes a file, or a folder with its content, as far as possible. An absent one is not an error.
func (d Disk) RemoveAll(name string) error {
	return errors.Join(d.RemoveTree(context.Background(), name)...)
}

// RemoveTree is like RemoveAll until ctx ends, and returns an error for each file that remains. It does not follow links, which may lead to volumes
// of pods, not even a link that replaces a folder in the meantime: users of the host and pods may change the content of some folders.
func (d Disk) RemoveTree(ctx context.Context, name string) (failures []error) {
	local := d.Local(name)
	parent, err := os.OpenRoot(filepath.Dir(local))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []error{fmt.Errorf("%s: %w", name, err)}
	}
	defer parent.Close()
	return d.removeIn(ctx, parent, filepath.Base(local), name, newRetryWindow())
}

// removeIn removes base from a folder; name is its full name. All removals share one retry window, because removing many running programs
// would otherwise take minutes.
func (d Disk) removeIn(ctx context.Context, folder *os.Root, base, name string, p retryWindow) (failures []error) {
	if ctx.Err() != nil {
		return []error{ctx.Err()}
	}
	info, err := folder.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		failures = d.empty(ctx, folder, info, name, p)
	}
	if len(failures) > 0 {
		return failures // the folder cannot be empty
	}
	err = p.repeat(HeldCodes(), func() error {
		if err := d.Allow("remove", name); err != nil {
			return err
		}
		return removeFrom(folder, base)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []error{fmt.Errorf("%s: %w", name, err)}
	}
	return nil
}

// removeFrom removes a file or an empty folder. Wine does not implement the call that os.Root uses for removal and returns ERROR_INVALID_FUNCTION.
// Only in this case, the folder is looked up again by name.
func removeFrom(folder *os.Root, base string) error {
	const invalidFunction = syscall.Errno(1) // ERROR_INVALID_FUNCTION
	err := folder.Remove(base)
	if runtime.GOOS == "windows" && errors.Is(err, invalidFunction) {
		return os.Remove(filepath.Join(folder.Name(), base))
	}
	return err
}

// empty removes the content of the folder that expected describes.
func (d Disk) empty(ctx context.Context, parent *os.Root, expected fs.FileInfo, name string, p retryWindow) (failures []error) {
	names, folder, err := openFolder(parent, expected)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", name, err)}
	}
	defer folder.Close()
	for _, child := range names {
		failures = append(failures, d.removeIn(ctx, folder, child, name+`\`+child, p)...)
	}
	return failures
}

// openFolder opens and lists the folder that expected describes, and fails if it was replaced.
func openFolder(parent *os.Root, expected fs.FileInfo) (names []string, folder *os.Root, err error) {
	folder, err = parent.OpenRoot(expected.Name())
	if err != nil {
		return nil, nil, err
	}
	opened, err := folder.Open(".")
	if err != nil {
		return nil, nil, errors.Join(err, folder.Close())
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err == nil && !os.SameFile(expected, info) {
		err = errors.New("the folder was replaced while it was being removed")
	}
	if err == nil {
		names, err = opened.Readdirnames(-1)
	}
	if err != nil {
		return nil, nil, errors.Join(err, folder.Close())
	}
	slices.Sort(names)
	return names, folder, nil
}
