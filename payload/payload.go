// Package payload reads what the operator carries for Windows hosts: every program
// a node runs, compressed and named after its content, and payload.json, the list
// of them. Package payload/build writes both ("make payload").
//
// The list's digest identifies the content, so it is the name of a version: two
// payloads with the same digest put the same files on a host.
package payload

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Names inside a payload's folder.
const (
	ManifestName = "payload.json"
	SetupName    = "wicd-setup.exe"
)

// WICD is the path of the daemon among the files of a payload.
const WICD = "windows-instance-config-daemon.exe"

// MaxWindow is the largest zstd window of a blob in bytes: what a host must be ready to keep in memory to decompress one.
const MaxWindow = 8 << 20

// Payload is an opened payload. It is safe for concurrent use: nothing in it changes.
type Payload struct {
	// Manifest lists what is in the payload; treat it as read-only.
	Manifest Manifest

	dir string
}

// Open reads the payload in dir and checks that it is whole: the manifest is consistent, and every blob and the carrier program
// are there with the size that the manifest says. Contents are not read; the host that receives them verifies their hashes.
func Open(dir string) (*Payload, error) {
	name := filepath.Join(dir, ManifestName)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("opening the payload: %w; run make payload", err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("opening the payload: %s: %w; run make payload", name, err)
	}
	p := &Payload{Manifest: m, dir: dir}
	if err := p.checkSizes(); err != nil {
		return nil, fmt.Errorf("opening the payload: %w; run make payload", err)
	}
	return p, nil
}

// Blob opens the compressed content of f, a file of the manifest. Reading may start at any byte, so that a transfer that was cut
// can be resumed. The caller closes it.
func (p *Payload) Blob(f File) (io.ReadSeekCloser, error) {
	file, err := os.Open(p.blobPath(f))
	if err != nil {
		return nil, fmt.Errorf("opening the content of %s: %w", f.Path, err)
	}
	return file, nil
}

// Setup opens the carrier program, which puts WICD on a host that has none. It is not compressed. The caller closes it.
// A payload without WICD has no carrier: then the error matches fs.ErrNotExist.
func (p *Payload) Setup() (io.ReadCloser, error) {
	file, err := os.Open(filepath.Join(p.dir, SetupName))
	if err != nil {
		return nil, fmt.Errorf("opening the carrier of WICD: %w", err)
	}
	return file, nil
}

func (p *Payload) checkSizes() error {
	for _, f := range p.Manifest.Files {
		if err := checkSize(p.blobPath(f), f.Compressed.Size); err != nil {
			return fmt.Errorf("content of %s: %w", f.Path, err)
		}
	}
	if s := p.Manifest.Setup; s.Path != "" {
		return checkSize(filepath.Join(p.dir, s.Path), s.Size)
	}
	return nil
}

func (p *Payload) blobPath(f File) string {
	return filepath.Join(p.dir, BlobName(f.SHA256))
}

// BlobName returns the name, below a payload's folder, of the compressed content that has the hash sha256.
func BlobName(sha256 string) string {
	return filepath.Join("blobs", sha256+".zst")
}

func checkSize(name string, want int64) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.Size() != want {
		return fmt.Errorf("%s has %d bytes, %s says %d", name, info.Size(), ManifestName, want)
	}
	return nil
}
