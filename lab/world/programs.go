//go:build linux

package world

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/windows-machine-config/wmco/lab/winbuild"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// Programs builds components of the payload for Wine hosts and writes them into a folder, as kube-proxy.exe. It is for tests that run
// them without the operator.
func Programs(ctx context.Context, dir string, log io.Writer, names ...string) error {
	components, err := build.Named(names...)
	if err != nil {
		return err
	}
	made := filepath.Join(dir, "payload")
	if err := buildPayload(ctx, made, components, true, log); err != nil {
		return fmt.Errorf("building programs: %w", err)
	}
	p, err := payload.Open(made)
	if err != nil {
		return err
	}
	for _, f := range p.Manifest.Files {
		content, err := contentOf(p, f)
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", f.Path, err)
		}
		if err := os.WriteFile(filepath.Join(dir, path.Base(f.Path)), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// contentOf is a file of a payload, decompressed.
func contentOf(p *payload.Payload, f payload.File) ([]byte, error) {
	blob, err := p.Blob(f)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	decoder, err := zstd.NewReader(blob)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return io.ReadAll(decoder)
}

// buildPayload builds components for Wine hosts: their programs are patched; see package winbuild. Where it is to be fast, they are
// compressed less than those of users' hosts.
func buildPayload(ctx context.Context, dir string, components []build.Component, fast bool, log io.Writer) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	cacheDir, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	patches := filepath.Join(cacheDir, "wmco", "winbuild")
	_, err = build.Build(ctx, build.Options{
		Components: components,
		Root:       root,
		Out:        dir,
		Fast:       fast,
		Log:        log,
		Flags: func(ctx context.Context, moduleDir string) ([]string, error) {
			if filepath.Clean(moduleDir) == root {
				return nil, nil // our own programs run on Wine as they are
			}
			return winbuild.Flags(ctx, moduleDir, patches)
		},
	})
	return err
}
