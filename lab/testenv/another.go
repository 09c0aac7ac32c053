//go:build linux

package testenv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// AnotherPayload writes a payload in which the named programs have some additional bytes at their end, which do not affect how they
// run. It returns the folder; see Operator.Upgrade.
func (env *Env) AnotherPayload(name string, changed ...string) (dir string, err error) {
	previous, err := payload.Open(env.Payload)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(env.folder.Path, name)
	if err := os.CopyFS(dir, os.DirFS(env.Payload)); err != nil {
		return "", err
	}
	files := slices.Clone(previous.Manifest.Files)
	for _, path := range changed {
		i := slices.IndexFunc(files, func(f payload.File) bool { return f.Path == path })
		if i < 0 || path == payload.WICD {
			return "", fmt.Errorf("the payload has no %s that can be changed", path)
		}
		before := previous.Manifest.Files[i].SHA256
		if files[i], err = change(previous, previous.Manifest.Files[i], dir, name); err != nil {
			return "", fmt.Errorf("changing %s: %w", path, err)
		}
		for k, f := range files { // compress files again whose dictionary was changed
			if f.Dictionary != before {
				continue
			}
			if files[k], err = change(previous, f, dir, ""); err != nil {
				return "", fmt.Errorf("compressing %s again: %w", f.Path, err)
			}
		}
	}
	manifest, err := payload.New(files, previous.Manifest.Setup).Encode()
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, payload.ManifestName), manifest, 0o600)
}

// change appends bytes to a program and writes the result, compressed without a dictionary, into the payload in dir.
func change(p *payload.Payload, f payload.File, dir, suffix string) (payload.File, error) {
	content, err := p.Content(f)
	if err != nil {
		return f, err
	}
	content = append(content, suffix...)
	f.SHA256, f.Size, f.Dictionary = sumOf(content), int64(len(content)), ""
	var frame bytes.Buffer
	if err := compress.Compress(&frame, content, compress.Dictionary{}, true); err != nil {
		return f, err
	}
	f.Compressed = payload.Blob{SHA256: sumOf(frame.Bytes()), Size: int64(frame.Len())}
	return f, os.WriteFile(filepath.Join(dir, payload.BlobName(f.SHA256)), frame.Bytes(), 0o600)
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
