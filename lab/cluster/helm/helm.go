//go:build linux

// Package helm installs the chart of this repository with Helm in a cluster of the lab.
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
	// runTimeout limits one call. Helm's own timeout is five minutes.
	runTimeout = 6 * time.Minute
)

// Helm is the helm program with its own configuration, cache and data folders.
type Helm struct {
	root, dir, program string
	// Kubeconfig is the path of the kubeconfig.
	Kubeconfig string
}

// New builds Helm 4, unless it is cached. dir must exist and be empty. root is the folder of the repository.
func New(ctx context.Context, root, dir string, progress io.Writer) (*Helm, error) {
	return build(ctx, root, dir, "hack/tools/helm", "helm.sh/helm/v4/cmd/helm", progress)
}

// New3 is like New with Helm 3, which is still widely used.
func New3(ctx context.Context, root, dir string, progress io.Writer) (*Helm, error) {
	return build(ctx, root, dir, "hack/tools/helm3", "helm.sh/helm/v3/cmd/helm", progress)
}

func build(ctx context.Context, root, dir, module, pkg string, progress io.Writer) (*Helm, error) {
	h := &Helm{root: root, dir: dir, program: filepath.Join(dir, "helm")}
	return h, lab.BuildProgram(ctx, filepath.Join(root, filepath.FromSlash(module)), pkg, h.program, lab.BuildOptions{}, progress)
}

// Folder returns the folder of the program, for PATH.
func (h *Helm) Folder() string { return h.dir }

// Environment returns the variables that set the program's folders.
func (h *Helm) Environment() []string {
	return []string{
		"HELM_CONFIG_HOME=" + filepath.Join(h.dir, "config"), "HELM_CACHE_HOME=" + filepath.Join(h.dir, "cache"), "HELM_DATA_HOME=" + filepath.Join(h.dir, "data"),
	}
}

// Chart builds the chart with a version and an image, and returns its folder. If image is empty, the chart has that of deploy/.
func (h *Helm) Chart(ctx context.Context, version, image string) (folder string, err error) {
	out := filepath.Join(h.dir, "chart-"+version)
	command := exec.CommandContext(ctx, "go", "run", "./chart/cmd", "-deploy", "../deploy", "-out", out, "-version", version, "-image", image)
	command.Dir = filepath.Join(h.root, "release")
	if text, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the chart: %w: %s", err, strings.TrimSpace(string(text)))
	}
	return filepath.Join(out, chartName), nil
}

// Run runs Helm, and returns its output. Errors include the output.
func (h *Helm) Run(ctx context.Context, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(runTimeout))
	defer cancel()
	command := exec.CommandContext(ctx, h.program, args...)
	command.Env = append(append(os.Environ(), "KUBECONFIG="+h.Kubeconfig), h.Environment()...)
	text, err := command.CombinedOutput()
	if err != nil {
		return string(text), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
