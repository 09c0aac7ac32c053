//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

// kubernetesModule is the module that the modules below cluster/kubernetes pin.
const kubernetesModule = "k8s.io/kubernetes"

// kubernetes returns API server, controller manager and scheduler of a version that a module below cluster/kubernetes pins,
// such as v1.33.13. It returns none for the newest version, which is part of the control plane's program.
func (c cache) kubernetes(ctx context.Context, release string) (programs map[string]string, err error) {
	if release == "" {
		return nil, nil
	}
	numbers, err := version.ParseSemantic(release)
	if err != nil {
		return nil, fmt.Errorf("parsing the version of Kubernetes: %w", err)
	}
	module := filepath.Join("cluster", "kubernetes", fmt.Sprintf("%d.%d", numbers.Major(), numbers.Minor()))
	if _, err := os.Stat(filepath.Join(c.module, module, "go.mod")); errors.Is(err, fs.ErrNotExist) {
		module = "" // the lab's own
	}
	pinned, err := pinnedVersion(ctx, filepath.Join(c.module, module), kubernetesModule)
	switch {
	case err != nil:
		return nil, err
	case pinned != release:
		return nil, fmt.Errorf("finding the control plane of Kubernetes %s: %s pins %s", release, filepath.Join(c.module, module), pinned)
	case module == "":
		return nil, nil
	}
	programs = map[string]string{}
	for _, name := range []string{controlplane.APIServer, controlplane.ControllerManager, controlplane.Scheduler} {
		about := "building " + name + " of Kubernetes " + release + " (minutes the first time)"
		p := program{pkg: kubernetesModule + "/cmd/" + name, module: module, about: about, stamp: kubernetesModule}
		if programs[name], err = c.build(ctx, p); err != nil {
			return nil, err
		}
	}
	return programs, nil
}

// PrepareOthers builds the programs that only some tests need unless they are in the cache: the control planes of minor
// versions of Kubernetes, such as 1.33, the cluster's DNS, metrics-server, Azure File's CSI driver and OLM.
func PrepareOthers(ctx context.Context, progress io.Writer, minors ...string) error {
	c, err := openCache(ctx, progress)
	if err != nil {
		return err
	}
	for _, minor := range minors {
		pinned, err := pinnedVersion(ctx, filepath.Join(c.module, "cluster", "kubernetes", minor), kubernetesModule)
		if err != nil {
			return err
		}
		if _, err := c.kubernetes(ctx, pinned); err != nil {
			return err
		}
	}
	programs := append(slices.Collect(maps.Values(olmPrograms())), []program{coreDNSProgram(), metricsServerProgram(), azureFileProgram(), csiNodeProgram()})
	return c.prepare(ctx, slices.Concat(programs...)...)
}
