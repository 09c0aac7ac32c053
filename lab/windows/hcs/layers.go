package hcs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Layers are the layers of images and containers: folders. Mounts is the folder for mounted layers of containers, each a folder
// with copies of all files of the layers below; on Windows they are volumes.
type Layers struct {
	Mounts string
}

// separateData is the suffix of files with the metadata of a folder.
const separateData = ".$wcidirs$"

// Import creates a layer from an unpacked image: its files, which are in backup streams, and its changes of the registry (Hives),
// which are not.
func (Layers) Import(layer, folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		to := filepath.Join(layer, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case strings.HasSuffix(rel, separateData):
			return nil
		case rel == "Hives" || strings.HasPrefix(rel, "Hives"+string(filepath.Separator)):
			return copyFile(path, to, copyAll)
		}
		return copyFile(path, to, unwrap)
	})
}

func copyFile(from, to string, copyContent func(io.Writer, io.Reader) error) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if err := errors.Join(copyContent(out, in), out.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return nil
}

func copyAll(w io.Writer, r io.Reader) error {
	_, err := io.Copy(w, r)
	return err
}

// streamHeader is Windows' WIN32_STREAM_ID.
type streamHeader struct {
	ID, Attributes uint32
	Size           uint64
	NameSize       uint32
}

// backupData is the kind of the stream with a file's content.
const backupData = 1

// unwrap extracts a file's content from its attributes and streams.
func unwrap(w io.Writer, r io.Reader) error {
	if _, err := io.CopyN(io.Discard, r, 4); err != nil {
		return fmt.Errorf("reading the attributes: %w", err)
	}
	for {
		var h streamHeader
		err := binary.Read(r, binary.LittleEndian, &h)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a stream's header: %w", err)
		}
		if _, err := io.CopyN(io.Discard, r, int64(h.NameSize)); err != nil {
			return fmt.Errorf("reading a stream's name: %w", err)
		}
		to := io.Discard
		if h.ID == backupData {
			to = w
		}
		if _, err := io.CopyN(to, r, int64(h.Size)); err != nil {
			return fmt.Errorf("reading a stream: %w", err)
		}
	}
}

// ProcessBase creates the initial disks of containers on a base layer. They are empty.
func (Layers) ProcessBase(layer string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(layer, "blank-base.vhdx"), nil, 0o644),
		os.WriteFile(filepath.Join(layer, "blank.vhdx"), nil, 0o644))
}

// ProcessUtility creates the initial disk of virtual machines that start from a folder of a base layer. It is empty.
func (Layers) ProcessUtility(folder string) error {
	return os.WriteFile(filepath.Join(folder, "SystemTemplate.vhdx"), nil, 0o644)
}

// CreateScratch creates the layer of a container.
func (Layers) CreateScratch(layer string) error {
	if err := os.MkdirAll(layer, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(layer, "sandbox.vhdx"), nil, 0o644)
}

// Destroy removes a layer; a missing one is not an error.
func (Layers) Destroy(layer string) error { return removeTree(layer) }

// removeTree removes a file, or a folder with its content. os.RemoveAll uses deletes that Wine rejects.
func removeTree(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := filepath.Join(path, e.Name())
		if e.IsDir() {
			err = removeTree(below)
		} else {
			err = os.Remove(below)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(path)
}

// Prepare mounts the layer of a container over others, the topmost first.
func (l Layers) Prepare(layer string, parents []string) error {
	mount := l.Mount(layer)
	if err := os.MkdirAll(mount, 0o755); err != nil {
		return err
	}
	for i := len(parents) - 1; i >= 0; i-- {
		if err := overlay(filepath.Join(parents[i], "Files"), mount); err != nil {
			return fmt.Errorf("mounting layer %s: %w", parents[i], err)
		}
	}
	return nil
}

func overlay(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if strings.EqualFold(filepath.Ext(path), ".exe") && os.Link(path, target) == nil { // containers do not change programs
			return nil
		}
		return copyFile(path, target, copyAll)
	})
}

// Unprepare unmounts the layer of a container; its changes are lost.
func (l Layers) Unprepare(layer string) error { return removeTree(l.Mount(layer)) }

// Mount returns the folder of a prepared layer.
func (l Layers) Mount(layer string) string { return filepath.Join(l.Mounts, GUIDOf(layer).String()) }

// Volume returns the name of a mounted layer's volume, like Windows without the final backslash, which hcsshim adds.
func (Layers) Volume(layer string) string { return `\\?\Volume{` + GUIDOf(layer).String() + `}` }

// Folder returns the folder of a volume, whose name may end with a backslash.
func (l Layers) Folder(volume string) string {
	id := strings.TrimPrefix(strings.TrimSuffix(volume, `\`), `\\?\Volume{`)
	return filepath.Join(l.Mounts, strings.TrimSuffix(id, "}"))
}

// GUID is a GUID in Windows' memory layout.
type GUID [16]byte

// GUIDOf returns a GUID derived from a name, without regard to case. Windows derives other GUIDs.
func GUIDOf(name string) GUID {
	h := fnv.New128a()
	h.Write([]byte(strings.ToLower(name)))
	return GUID(h.Sum(nil))
}

// String formats the GUID as Windows does.
func (g GUID) String() string {
	return fmt.Sprintf("%08X-%04X-%04X-%X-%X", binary.LittleEndian.Uint32(g[0:]), binary.LittleEndian.Uint16(g[4:]),
		binary.LittleEndian.Uint16(g[6:]), g[8:10], g[10:16])
}
