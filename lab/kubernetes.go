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

// kubernetesModule is what the modules below kubernetes pin.
const kubernetesModule = "k8s.io/kubernetes"

// kubernetes returns the folder with API server, controller manager and scheduler of a version that a module below kubernetes pins, as in
// v1.33.13; "" for the newest one, which the control plane itself has.
func (c cache) kubernetes(ctx context.Context, release string) (dir string, err error) {
	if release == "" {
		return "", nil
	}
	numbers, err := version.ParseSemantic(release)
	if err != nil {
		return "", fmt.Errorf("parsing the version of Kubernetes: %w", err)
	}
	minor := fmt.Sprintf("%d.%d", numbers.Major(), numbers.Minor())
	module := filepath.Join(c.module, "kubernetes", minor)
	if _, err := os.Stat(filepath.Join(module, "go.mod")); errors.Is(err, fs.ErrNotExist) {
		module = c.module
	}
	pinned, err := pinnedVersion(ctx, module, kubernetesModule)
	switch {
	case err != nil:
		return "", err
	case pinned != release:
		return "", fmt.Errorf("finding the control plane of Kubernetes %s: %s pins %s", release, module, pinned)
	case module == c.module:
		return "", nil
	}
	compiler, err := goVersion(ctx, module)
	if err != nil {
		return "", err
	}
	ldflags, err := program{stamp: kubernetesModule}.ldflags(ctx, module)
	if err != nil {
		return "", err
	}
	key, err := contentKey([]string{compiler, ldflags}, module, []string{"go.mod", "go.sum"})
	if err != nil {
		return "", err
	}
	about := "building the control plane of Kubernetes " + release + " (about ten minutes the first time)"
	return c.get(ctx, item{name: "kubernetes-" + minor, about: about, key: key, make: func(ctx context.Context, path string) error {
		command := []string{"build", "-ldflags=" + ldflags}
		for _, name := range []string{controlplane.APIServer, controlplane.ControllerManager, controlplane.Scheduler} {
			command = append(command, kubernetesModule+"/cmd/"+name)
		}
		return goBuild(ctx, module, path+string(filepath.Separator), nil, command...)
	}})
}

// PrepareOthers builds what only some tests need unless it is in the cache: the control planes of minor versions of Kubernetes, as in 1.33, the
// cluster's DNS, Azure File's CSI driver and OLM.
func PrepareOthers(ctx context.Context, progress io.Writer, minors ...string) error {
	c, err := openCache(ctx, progress)
	if err != nil {
		return err
	}
	for _, minor := range minors {
		pinned, err := pinnedVersion(ctx, filepath.Join(c.module, "kubernetes", minor), kubernetesModule)
		if err != nil {
			return err
		}
		if _, err := c.kubernetes(ctx, pinned); err != nil {
			return err
		}
	}
	programs := append(slices.Collect(maps.Values(olmPrograms())), []program{coreDNSProgram(), azureFileProgram(), csiNodeProgram()})
	return c.prepare(ctx, slices.Concat(programs...)...)
}
