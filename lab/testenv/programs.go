//go:build linux

package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/windows-machine-config/wmco/lab/windows/winbuild"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// Programs builds components of the payload for Wine hosts, such as kube-proxy.exe, and writes them into a folder, for tests that run
// them without the operator. Components of Kubernetes have a minor version, such as 1.33, the newest one if it is empty.
func Programs(ctx context.Context, minor, dir string, log io.Writer, names ...string) error {
	p, err := PayloadOf(ctx, minor, filepath.Join(dir, "payload"), log, names...)
	if err != nil {
		return err
	}
	for _, f := range p.Manifest.Files {
		content, err := p.Content(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, path.Base(f.Path)), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// PayloadOf builds a payload of components for Wine hosts in a folder. Components of Kubernetes have a minor version, the
// newest one if it is empty.
func PayloadOf(ctx context.Context, minor, dir string, log io.Writer, names ...string) (*payload.Payload, error) {
	components, err := build.Named(names...)
	if err != nil {
		return nil, err
	}
	var o Options
	if minor != "" {
		o.Minors = []string{minor}
	}
	components = slices.DeleteFunc(components, o.isOfOtherMinor)
	if err := buildPayload(ctx, dir, Options{Log: log}, components); err != nil {
		return nil, fmt.Errorf("building programs: %w", err)
	}
	return payload.Open(dir)
}

// buildPayload builds components for Wine hosts, with the patches of package winbuild. Without WholePayload, it compresses them
// less, to save time.
func buildPayload(ctx context.Context, dir string, o Options, components []build.Component) error {
	root, err := Repository(ctx)
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
		Fast:       !o.WholePayload,
		Log:        o.Log,
		Flags: func(ctx context.Context, moduleDir string) ([]string, error) {
			if filepath.Clean(moduleDir) == root {
				return nil, nil // the operator's own programs need no patches
			}
			return winbuild.Flags(ctx, moduleDir, patches)
		},
	})
	return err
}
