package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/payload/compress"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

// staleAfter is the age from which a partial file cannot belong to a running process.
const staleAfter = time.Hour

// Time to wait until other processes close the file to rename or to replace: 50 times 100 ms, as long as WICD waits for its own files.
const (
	renameAttempts = 50
	renamePause    = 100 * time.Millisecond
)

// unpack writes the program inside the executable self into self's folder, unless it exists, and returns its path: wicd-<first 16 digits of its
// hash>.exe. It may be interrupted at any point and run in several processes at once.
func unpack(self string) (string, error) {
	file, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	program, compressed, err := selfextract.Find(file, info.Size())
	if err != nil {
		return "", fmt.Errorf("%s: %w", self, err)
	}
	target := filepath.Join(filepath.Dir(self), "wicd-"+hex.EncodeToString(program.SHA256[:8])+".exe")
	if hasContent(target, program) {
		return target, nil
	}
	removeStale(filepath.Dir(target))
	return target, write(target, compressed, program)
}

// write decompresses the program into a temporary file and renames it to target once its content is verified and on disk.
func write(target string, compressed io.Reader, program selfextract.Program) (err error) {
	file, err := os.CreateTemp(filepath.Dir(target), filepath.Base(target)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	err = errors.Join(decompress(file, compressed, program), file.Chmod(0o700), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return rename(file.Name(), target, program)
}

// rename renames the file part to target, or removes it if another process was faster. It retries: Windows denies a rename
// while any process has one of them open, such as another run of this program or a virus scanner.
func rename(part, target string, program selfextract.Program) error {
	for attempt := 1; ; attempt++ {
		err := os.Rename(part, target)
		if err == nil {
			return nil
		}
		if hasContent(target, program) {
			_ = os.Remove(part) // a scanner may hold it; later runs remove it when it is old
			return nil
		}
		if attempt == renameAttempts {
			return err
		}
		time.Sleep(renamePause)
	}
}

// decompress writes the program to w and verifies its size and its hash.
func decompress(w io.Writer, compressed io.Reader, program selfextract.Program) error {
	frame, err := io.ReadAll(compressed)
	if err != nil {
		return err
	}
	content, err := compress.Decompress(frame, program.Size, compress.Dictionary{})
	if err != nil || sha256.Sum256(content) != program.SHA256 {
		return errors.New("the program at the end of this executable is corrupt: its hash does not match the trailer; copy the executable again")
	}
	_, err = w.Write(content)
	return err
}

// hasContent reports whether the file name has exactly the program's content.
func hasContent(name string, program selfextract.Program) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	return err == nil && n == program.Size && [sha256.Size]byte(hash.Sum(nil)) == program.SHA256
}

// removeStale removes partial files that interrupted runs of any version left in folder. Failures are harmless.
func removeStale(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "wicd-") || !strings.HasSuffix(entry.Name(), ".part") {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
}
