// Package build builds the payload: it builds the declared components for windows/amd64 from the modules that pin them
// (payload/kubernetes and the other module folders), compresses them, and writes payload.json. Read Build from top to bottom.
//
// The same sources and the same Go give the same bytes, on every machine.
package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/windows-machine-config/wmco/payload"
)

// Options are the options of a build.
type Options struct {
	// Components are the components of the payload: Components(), or some of them (Named).
	Components []Component
	// Root is the folder of this repository.
	Root string
	// Out is the folder for the payload; it is created if missing.
	Out string
	// Cache is the folder for programs and compressed files between builds. Empty means DefaultCache. Concurrent builds can share
	// it, and it can be removed between them; entries that were not used for a month are removed.
	Cache string
	// Fast compresses faster but less, for tests.
	Fast bool
	// Version is the version of this repository's programs in the manifest. It does not change their bytes. Empty means "devel".
	Version string
	// Flags, if set, returns additional flags of "go build" in moduleDir. A flag with the name of a file must change with its
	// content (a hash in its path), because programs built with the same flags are reused.
	Flags func(ctx context.Context, moduleDir string) ([]string, error)
	// Log receives a line when a step begins and when it ends. Nil means none.
	Log io.Writer
}

// DefaultCache returns wmco/payload in the user's cache folder ($XDG_CACHE_HOME or ~/.cache).
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	return filepath.Join(dir, "wmco", "payload"), nil
}

// Build builds the payload and returns its manifest. It reuses what has not changed since an earlier build. It can be interrupted
// and repeated at any point: Out has either the old payload or the new one.
func Build(ctx context.Context, o Options) (payload.Manifest, error) {
	o, err := o.withDefaults()
	if err != nil {
		return payload.Manifest{}, err
	}
	blobsDir := filepath.Join(o.Cache, "blobs")
	if o.Fast {
		blobsDir += "-fast"
	}
	programs, clean, err := build(ctx, o, withSetup(o.Components))
	if err != nil {
		return payload.Manifest{}, err
	}
	defer clean()
	set := Set{Blobs: blobsDir, Fast: o.Fast, Log: o.Log}
	for _, p := range programs {
		if p.Path == payload.SetupName {
			set.Stub = file(p.exe)
			continue
		}
		set.Files = append(set.Files, content(p.Component, p.version, file(p.exe)))
	}
	m, err := Write(ctx, o.Out, set)
	if err != nil {
		return payload.Manifest{}, err
	}
	prune(o.programs())
	prune(blobsDir)
	return m, nil
}

// Programs builds the components that are not of this repository, without writing a payload, and returns the paths of their executables
// in the cache, in the order of o.Components.
func Programs(ctx context.Context, o Options) (paths []string, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(o.Components), func(c Component) bool { return program{Component: c}.own() })
	programs, clean, err := build(ctx, o, others)
	if err != nil {
		return nil, err
	}
	clean()
	for _, p := range programs {
		paths = append(paths, p.exe)
	}
	return paths, nil
}

// build builds the executables of components. clean removes those of this repository, which are not cached.
func build(ctx context.Context, o Options, components []Component) (programs []program, clean func(), err error) {
	if err := os.MkdirAll(o.programs(), 0o755); err != nil {
		return nil, nil, err
	}
	scratch, err := os.MkdirTemp(o.programs(), "scratch-")
	if err != nil {
		return nil, nil, err
	}
	clean = func() { _ = os.RemoveAll(scratch) }
	c := compiler{Options: o, scratch: scratch}
	if programs, err = c.plan(ctx, components); err == nil {
		err = c.compile(ctx, programs)
	}
	if err != nil {
		clean()
		return nil, nil, err
	}
	return programs, clean, nil
}

// withSetup adds wicd-setup, which unpacks WICD on a new host, if WICD is among the components.
func withSetup(components []Component) []Component {
	if !slices.ContainsFunc(components, func(c Component) bool { return c.Path == payload.WICD }) {
		return components
	}
	return append(slices.Clone(components), Component{
		Name: "wicd-setup", Path: payload.SetupName, Group: payload.Base, License: "Apache-2.0",
		Module: ".", Package: "github.com/windows-machine-config/wmco/cmd/wicd-setup",
	})
}

func content(c Component, version string, open func() (io.ReadCloser, error)) Content {
	return Content{Path: c.Path, Component: c.Name, Version: version, License: c.License, Group: c.Group, Dictionary: c.Dictionary, Open: open}
}

func (o Options) withDefaults() (Options, error) {
	if o.Cache == "" {
		dir, err := DefaultCache()
		if err != nil {
			return o, err
		}
		o.Cache = dir
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	if _, err := os.Stat(filepath.Join(o.Root, "go.mod")); err != nil {
		return o, fmt.Errorf("%q is not the folder of the repository: %w", o.Root, err)
	}
	return o, nil
}

// programs returns the cache folder with a subfolder for each key of a program.
func (o Options) programs() string { return filepath.Join(o.Cache, "programs") }

func (o Options) log(format string, args ...any) {
	logTo(o.Log, format, args...)
}
