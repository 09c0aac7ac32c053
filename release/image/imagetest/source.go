// Package imagetest provides a source of images for tests.
package imagetest

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/release/image"
)

// NewSource returns a payload of two files and executables for both architectures, with version 1.2.0.
func NewSource(t *testing.T) image.Source {
	t.Helper()
	dir := t.TempDir()
	var files []payload.File
	for _, name := range []string{"kubelet.exe", "containerd/containerd.exe"} {
		sum := hash(name)
		blob := filepath.Join(dir, payload.BlobName(sum))
		if err := errors.Join(os.MkdirAll(filepath.Dir(blob), 0o755), os.WriteFile(blob, []byte("compressed "+name), 0o600)); err != nil {
			t.Fatal(err)
		}
		files = append(files, payload.File{
			Path: name, Component: strings.TrimSuffix(filepath.Base(name), ".exe"), Version: "v1.0.0", Group: payload.Base, SHA256: sum, Size: int64(len(name)),
			Compressed: payload.Blob{SHA256: hash("compressed " + name), Size: int64(len("compressed " + name))},
		})
	}
	text, err := payload.New(files, payload.File{}).Encode()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, payload.ManifestName), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return image.Source{
		Payload: dir, Operators: map[string]string{"amd64": program(t, elf.EM_X86_64), "arm64": program(t, elf.EM_AARCH64)},
		Version: "1.2.0", Revision: "0123abc", Created: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC),
	}
}

// program returns the header of an executable, the only part that image.Build reads.
func program(t *testing.T, machine elf.Machine) string {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	var b bytes.Buffer
	path := filepath.Join(t.TempDir(), "wmco")
	if err := errors.Join(binary.Write(&b, binary.LittleEndian, header), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

func hash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
