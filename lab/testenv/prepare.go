//go:build linux

package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/prometheusoperator"
)

// Prepare builds everything that an Env with these options needs, unless it is in the cache.
func Prepare(ctx context.Context, o Options) error {
	scratch, err := os.MkdirTemp("", "wmco-prepare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := lab.Prepare(ctx, o.Log); err != nil {
		return fmt.Errorf("preparing the lab: %w", err)
	}
	if lab.CanRunWindows() == nil {
		components, err := o.components()
		if err == nil {
			err = buildPayload(ctx, filepath.Join(scratch, "payload"), o, components)
		}
		if err != nil {
			return fmt.Errorf("building the payload: %w", err)
		}
	}
	root, err := Repository(ctx)
	if err != nil {
		return err
	}
	if err := buildImageTool(ctx, root, filepath.Join(scratch, "image"), o.Log); err != nil {
		return err
	}
	if err := lab.BuildProgram(ctx, root, pluginPackage, filepath.Join(scratch, "kubectl-windows"), lab.BuildOptions{}, o.Log); err != nil {
		return err
	}
	if err := (prometheusoperator.Programs{Root: root, Dir: scratch, Progress: o.Log}).BuildDiscovery(ctx); err != nil {
		return err
	}
	return lab.BuildProgram(ctx, root, operatorPackage, filepath.Join(scratch, "wmco"), lab.BuildOptions{Race: detectsRaces()}, o.Log)
}
