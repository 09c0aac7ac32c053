// Package payload reads the operator's payload for Windows hosts: every program that a node runs, compressed and named after its
// content, and payload.json, the list of them. Package payload/build writes both ("make payload").
//
// The list's digest identifies the content and is therefore the name of a version: two payloads with the same digest install the
// same files on a host.
package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/windows-machine-config/wmco/payload/compress"
)

// Names of files in a payload's folder.
const (
	ManifestName = "payload.json"
	SetupName    = "wicd-setup.exe"
)

// WICD is the path of the daemon among the files of a payload.
const WICD = "windows-instance-config-daemon.exe"

// Payload is an opened payload. It does not change and is safe for concurrent use.
type Payload struct {
	// Manifest is the manifest; treat it as read-only.
	Manifest Manifest

	dir string
}

// Open reads the payload in dir and checks that it is complete: the manifest is consistent, and every blob and wicd-setup exist
// with the size in the manifest. It does not read contents; the host that receives them verifies their hashes.
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

// Verify reads all contents and returns an error that names a file whose content does not match the manifest.
func (p *Payload) Verify() error {
	for _, f := range p.Manifest.Files {
		if err := checkHash(p.blobPath(f), f.Compressed.SHA256); err != nil {
			return fmt.Errorf("content of %s: %w", f.Path, err)
		}
	}
	if s := p.Manifest.Setup; s.Path != "" {
		return checkHash(filepath.Join(p.dir, s.Path), s.SHA256)
	}
	return nil
}

func checkHash(name, want string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return err
	}
	if current := hex.EncodeToString(hash.Sum(nil)); current != want {
		return fmt.Errorf("%s has SHA-256 %s, but %s lists %s; run make payload", name, current, ManifestName, want)
	}
	return nil
}

// Blob opens the compressed content of f, a file of the manifest. Reading can start at any byte, to resume an interrupted
// transfer. The caller closes it.
func (p *Payload) Blob(f File) (io.ReadSeekCloser, error) {
	file, err := os.Open(p.blobPath(f))
	if err != nil {
		return nil, fmt.Errorf("opening the content of %s: %w", f.Path, err)
	}
	return file, nil
}

// Content returns the content of f, a file of the manifest, after verifying its hash. It also reads the dictionaries that f was compressed
// with.
func (p *Payload) Content(f File) ([]byte, error) {
	var dictionary compress.Dictionary
	if f.Dictionary != "" {
		i := slices.IndexFunc(p.Manifest.Files, func(d File) bool { return d.SHA256 == f.Dictionary })
		if i < 0 {
			return nil, fmt.Errorf("unpacking %s: the payload does not contain its dictionary %.12s", f.Path, f.Dictionary)
		}
		program, err := p.Content(p.Manifest.Files[i])
		if err != nil {
			return nil, err
		}
		dictionary = compress.NewDictionary(program)
	}
	blob, err := p.Blob(f)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	return Unpack(blob, f, dictionary)
}

// Unpack decompresses a file and verifies that its content has the size and the hash of f.
func Unpack(compressed io.Reader, f File, d compress.Dictionary) ([]byte, error) {
	frame, err := io.ReadAll(io.LimitReader(compressed, compress.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", f.Path, err)
	}
	content, err := compress.Decompress(frame, f.Size, d)
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", f.Path, err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, fmt.Errorf("unpacking %s: the content has SHA-256 %x, want %s", f.Path, sum, f.SHA256)
	}
	return content, nil
}

// Setup opens wicd-setup, which unpacks WICD on a host that has none. It is not compressed. The caller closes it. For a
// payload without WICD, the error matches fs.ErrNotExist.
func (p *Payload) Setup() (io.ReadCloser, error) {
	file, err := os.Open(filepath.Join(p.dir, SetupName))
	if err != nil {
		return nil, fmt.Errorf("opening wicd-setup: %w", err)
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

// BlobName returns the path, below a payload's folder, of the compressed content with the hash sha256.
func BlobName(sha256 string) string {
	return filepath.Join("blobs", sha256+".zst")
}

func checkSize(name string, want int64) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.Size() != want {
		return fmt.Errorf("%s has %d bytes, but %s lists %d", name, info.Size(), ManifestName, want)
	}
	return nil
}
