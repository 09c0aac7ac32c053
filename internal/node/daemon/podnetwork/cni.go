package podnetwork

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Sandbox is the sandbox image of pods.
type Sandbox interface {
	// IsPresent reports whether the host has it.
	IsPresent() bool
}

// CNI writes the configuration of the pod network for containerd.
type CNI struct {
	state.Session
	Sandbox Sandbox
}

// mustWaitForImage reports whether a file must wait for the sandbox image: the configuration of the pod network makes the node Ready. An
// existing one, under either name, is kept.
func mustWaitForImage(s state.Session, image Sandbox, path string) bool {
	return desired.IsCNIConfig(path) && !image.IsPresent() && !slices.ContainsFunc(desired.CNIConfigs(), s.Host.Disk.Exists)
}

// removeReplaced removes the configuration of the pod network that has another name than the written one. Because it is removed last, containerd
// has a configuration at each moment.
func removeReplaced(s state.Session, written string) error {
	for _, path := range desired.CNIConfigs() {
		if !desired.IsCNIConfig(written) || path == written || !s.Host.Disk.Exists(path) {
			continue
		}
		if err := s.Host.Disk.Remove(path); err != nil {
			return fmt.Errorf("removing %s, which %s replaces: %w", path, written, err)
		}
		s.RecordChange("%s removed: %s replaces it", path, written)
	}
	return nil
}

// Configure writes the configuration of the pod network.
func (c CNI) Configure(node *corev1.Node) error {
	cni := c.Record.Desired.CNI
	if cni == nil || node.Spec.PodCIDR == "" || mustWaitForImage(c.Session, c.Sandbox, cni.Path) {
		return nil
	}
	content, err := cni.Fill(node.Spec.PodCIDR, c.Record.NodeIP)
	if err != nil {
		return fmt.Errorf("rendering %s: %w", cni.Path, err)
	}
	changed, err := c.Host.Disk.WriteFile(cni.Path, content)
	if err != nil {
		return fmt.Errorf("writing %s: %w", cni.Path, err)
	}
	if changed {
		c.RecordChange("%s written for pod range %s", cni.Path, node.Spec.PodCIDR)
	}
	return removeReplaced(c.Session, cni.Path)
}

// IsConfigured reports whether the files that depend on the pod network exist.
func (c CNI) IsConfigured() bool {
	var paths []string
	if cni := c.Record.Desired.CNI; cni != nil {
		paths = append(paths, cni.Path)
	}
	if c.Wanted.Network != nil {
		for _, f := range c.Wanted.Network.Files {
			paths = append(paths, f.Path)
		}
	}
	if n := c.Wanted.UserNetwork; n != nil {
		if n.Proxy != nil {
			paths = append(paths, n.Proxy.Path)
		}
		if n.ConfigDir != "" {
			if name, err := firstCNIFile(c.Session, n.ConfigDir); name == "" || err != nil {
				return false
			}
		}
	}
	return !slices.ContainsFunc(paths, func(path string) bool { return !c.Host.Disk.Exists(path) })
}
