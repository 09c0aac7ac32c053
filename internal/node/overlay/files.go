package overlay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Names of files in the certificate folder. Those of certificates are client-go's, so that this program and OVN-Kubernetes' own find each other's
// certificates.
const (
	filePrefix  = "ovnkube-client-"
	currentFile = filePrefix + "current.pem"
	// pendingFile has the key and its request until the certificate is issued.
	pendingFile = filePrefix + "pending.pem"
	newEnding   = ".new"
)

// A scanner briefly opens files that were written, and Windows refuses to read, replace, rename or remove them meanwhile: 50 times 100 ms.
const (
	changeAttempts = 50
	changePause    = 100 * time.Millisecond
)

// retryHeld retries an action on a file, which a process that has the file open can prevent.
func retryHeld(action func() error) error {
	for attempt := 1; ; attempt++ {
		if err := action(); err == nil || attempt == changeAttempts {
			return err
		}
		time.Sleep(changePause)
	}
}

// writeFile replaces a file atomically: it writes another file, reads it back and renames it. Only the owner can read it; on Windows,
// those who can read the folder.
func writeFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	temporary := name + newEnding
	var f *os.File
	err := retryHeld(func() (err error) {
		if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, err = os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if current, err := readFile(temporary); err != nil || !bytes.Equal(current, content) {
		return errors.Join(fmt.Errorf("the content of %s differs from the content written", temporary), err)
	}
	return retryHeld(func() error {
		if info, err := os.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if err := os.Remove(name); err != nil { // Windows' rename could follow the link
				return err
			}
		}
		return os.Rename(temporary, name)
	})
}

// readStored reads a file that this program stores between starts. what describes it in the log. A damaged file is treated as absent.
func readStored[M ~map[K]V, K comparable, V any](name string, limit int64, parse func([]byte) (M, error), log *slog.Logger, what string) M {
	text, err := readLimited(name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return M{}
	}
	var have M
	if err == nil {
		have, err = parse(text)
	}
	if err != nil {
		log.Warn("Reading "+what+" failed; continuing without it", "file", name, "error", err.Error())
		return M{}
	}
	return have
}

// openFile opens a file for reading. WICD or a scanner can have it open exclusively for a moment.
func openFile(name string) (f *os.File, err error) {
	var missing error
	err = retryHeld(func() (err error) {
		if f, err = os.Open(name); errors.Is(err, fs.ErrNotExist) {
			missing, err = err, nil
		}
		return err
	})
	return f, cmp.Or(err, missing)
}

// readFile reads a file.
func readFile(name string) ([]byte, error) {
	f, err := openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// readLimited reads a file that is not larger than a limit.
func readLimited(name string, limit int64) ([]byte, error) {
	f, err := openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		err = fmt.Errorf("it is not a regular file of at most %d bytes", limit)
	}
	if err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	n, err := f.ReadAt(text, 0)
	if n < len(text) {
		return nil, err
	}
	return text, nil
}

// removeOld removes certificates that are no longer used. client-go stores each under a name with its time, and the current one is a link to the
// last. Such a link is replaced with a file first.
func removeOld(folder string) (removed []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	current := filepath.Join(folder, currentFile)
	if info, err := os.Lstat(current); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		content, err := readFile(current)
		if err == nil {
			err = writeFile(current, content)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, e := range entries {
		if !isOld(e.Name()) {
			continue
		}
		failure := os.Remove(filepath.Join(folder, e.Name()))
		if failure == nil {
			removed = append(removed, e.Name())
		}
		err = errors.Join(err, failure)
	}
	return removed, err
}

// isOld reports whether a file is an earlier certificate, or a link that client-go did not rename.
func isOld(name string) bool {
	rest, isCertificate := strings.CutPrefix(name, filePrefix)
	stamp, isPEM := strings.CutSuffix(rest, ".pem")
	return isCertificate && isPEM && stamp != "" && (stamp[0] >= '0' && stamp[0] <= '9' || stamp == "updated")
}
