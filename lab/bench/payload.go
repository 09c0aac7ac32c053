//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// measurePayload builds the payload. Programs that were built before are taken from the cache.
func measurePayload(ctx context.Context, s *sheet) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wmco-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.logf("Building the payload")
	m, err := build.Build(ctx, build.Options{Components: build.Components(), Root: root, Out: dir, Log: s.progress})
	if err != nil {
		return fmt.Errorf("building the payload: %w", err)
	}
	sum, minors := m.Setup.Size, map[string]int64{}
	for _, f := range m.Files {
		sum += f.Compressed.Size
		minors[f.Group] += f.Compressed.Size
	}
	s.number("payload.mb_compressed", float64(sum)/1e6, "MB")
	for _, minor := range m.Minors() {
		s.number("payload.mb_compressed_"+minor, float64(minors[payload.Kubernetes(minor)])/1e6, "MB")
	}
	return nil
}
