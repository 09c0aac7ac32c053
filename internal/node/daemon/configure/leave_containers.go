package configure

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// snapshots is the folder of containerd's snapshotter for Windows, with the layers of images and containers.
const snapshots = desired.ContainerdRoot + `\io.containerd.snapshotter.v1.windows\snapshots`

// leavingContainers removes the containers of a leaving host, with their networks and layers.
type leavingContainers struct{ *leaving }

// end ends the containers that containerd left running, then every program below C:\k: shims outlive containerd, and keep their files open.
func (c leavingContainers) end(ctx context.Context) error {
	if !c.isManaged {
		return nil
	}
	names, err := c.Containers.List(ctx)
	if err != nil {
		c.remains.note("containers, if any: %v", err) // Windows may lack the Host Compute Service
	}
	for _, name := range names {
		if err := c.Containers.End(ctx, name); err != nil {
			c.remains.note("container %s: %v", name, err) // its files are reported as well; the rest can be removed
			continue
		}
		c.recordChange("container %s stopped", name)
	}
	ended, err := c.Containers.EndPrograms(ctx, desired.Root)
	for _, program := range ended {
		c.recordChange("process of %s stopped", program)
	}
	if err != nil {
		return fmt.Errorf("stopping programs of %s: %w", desired.Root, err)
	}
	return ctx.Err()
}

// removeNetworks removes the networks of pods that were not removed when their containers ended. Networks of others have no CNI result.
func (c leavingContainers) removeNetworks(ctx context.Context) error {
	names, err := c.Disk.List(desired.CNIResults)
	if err != nil {
		return fmt.Errorf("listing %s: %w", desired.CNIResults, err)
	}
	for _, name := range names {
		var result struct {
			Namespace string `json:"netns"`
		}
		b, err := c.Disk.Read(desired.CNIResults + `\` + name)
		if err != nil || json.Unmarshal(b, &result) != nil || result.Namespace == "" {
			continue // no network to remove
		}
		removed, err := c.Containers.RemoveNamespace(ctx, result.Namespace)
		if err != nil {
			c.remains.note("network %s of a pod: %v", result.Namespace, err)
		}
		if removed {
			c.recordChange("network %s of a pod removed", result.Namespace)
		}
	}
	return ctx.Err()
}

// removeLayers removes the layers of images and containers. Those that cannot be removed are handled again with the files.
func (c leavingContainers) removeLayers(ctx context.Context) error {
	if !c.ownsImages() {
		return nil
	}
	names, err := c.Disk.List(snapshots)
	if err != nil {
		return fmt.Errorf("listing %s: %w", snapshots, err)
	}
	count := 0
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.Containers.RemoveLayer(ctx, snapshots+`\`+name) == nil {
			count++
		}
	}
	if count > 0 {
		c.recordChange("%d layers of images and containers removed", count)
	}
	return nil
}
