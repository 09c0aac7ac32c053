//go:build linux

// Package helm runs Helm with the chart of this repository against a control plane of the lab.
package helm

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/lab"
)

const (
	chartName = "windows-machine-config-operator"
	// runTimeout limits one call. Helm itself waits for five minutes at most.
	runTimeout = 6 * time.Minute
)

// Helm is the program, with a home of its own.
type Helm struct {
	root, dir, program string
	// Kubeconfig is the path of the file with which it connects to the cluster.
	Kubeconfig string
}

// New builds Helm 4, unless that is in the cache. Dir must exist, and be empty; root is the folder of the repository.
func New(ctx context.Context, root, dir string, progress io.Writer) (*Helm, error) {
	return build(ctx, root, dir, "hack/tools/helm", "helm.sh/helm/v4/cmd/helm", progress)
}

// New3 is New with Helm 3, which many still have.
func New3(ctx context.Context, root, dir string, progress io.Writer) (*Helm, error) {
	return build(ctx, root, dir, "hack/tools/helm3", "helm.sh/helm/v3/cmd/helm", progress)
}

func build(ctx context.Context, root, dir, module, pkg string, progress io.Writer) (*Helm, error) {
	h := &Helm{root: root, dir: dir, program: filepath.Join(dir, "helm")}
	return h, lab.BuildOwn(ctx, filepath.Join(root, filepath.FromSlash(module)), pkg, h.program, lab.BuildOptions{}, progress)
}

// Folder is where the program is, for a search path.
func (h *Helm) Folder() string { return h.dir }

// Environment are the variables that give the program its home.
func (h *Helm) Environment() []string {
	return []string{
		"HELM_CONFIG_HOME=" + filepath.Join(h.dir, "config"), "HELM_CACHE_HOME=" + filepath.Join(h.dir, "cache"), "HELM_DATA_HOME=" + filepath.Join(h.dir, "data"),
	}
}

// Chart makes the chart with a version and an image, and returns its folder. An empty image is that of deploy/.
func (h *Helm) Chart(ctx context.Context, version, image string) (folder string, err error) {
	out := filepath.Join(h.dir, "chart-"+version)
	command := exec.CommandContext(ctx, "go", "run", "./chart/cmd", "-deploy", "../deploy", "-out", out, "-version", version, "-image", image)
	command.Dir = filepath.Join(h.root, "release")
	if text, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("making the chart: %w: %s", err, strings.TrimSpace(string(text)))
	}
	return filepath.Join(out, chartName), nil
}

// Run runs Helm, and returns what it printed. Errors contain it.
func (h *Helm) Run(ctx context.Context, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience(runTimeout))
	defer cancel()
	command := exec.CommandContext(ctx, h.program, args...)
	command.Env = append(append(os.Environ(), "KUBECONFIG="+h.Kubeconfig), h.Environment()...)
	text, err := command.CombinedOutput()
	if err != nil {
		return string(text), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
