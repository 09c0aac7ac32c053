package build_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/payload/build"
)

func TestDeclaredComponentsArePinnedAndDoNotCollide(t *testing.T) {
	paths, names := map[string]bool{}, map[string]bool{}
	for _, c := range build.Components() {
		if paths[c.Minor+c.Path] || names[c.Minor+c.Name] {
			t.Errorf("%s: duplicate name or path %s", c.Name, c.Path)
		}
		paths[c.Minor+c.Path], names[c.Minor+c.Name] = true, true
		if c.License == "" || c.Group == "" {
			t.Errorf("%s: license %q, group %q", c.Name, c.License, c.Group)
		}
		if c.Module == "" || c.Package == "" {
			t.Errorf("%s: no module or package to build: %+v", c.Name, c)
		}
		if c.Module == "." {
			continue
		}
		mod, err := os.ReadFile(filepath.Join("..", "..", c.Module, "go.mod"))
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Contains(strings.Fields(string(mod)), c.Package) {
			t.Errorf("%s: %s/go.mod has no tool line for %s, so go mod tidy would remove its pin", c.Name, c.Module, c.Package)
		}
	}
}

func TestNamedSelectsComponents(t *testing.T) {
	chosen, err := build.Named("containerd", "kubelet-1.36")
	if err != nil || len(chosen) != 2 || chosen[0].Name != "kubelet" || chosen[0].Minor != "1.36" || chosen[1].Name != "containerd" {
		t.Errorf("chosen: %v, error %v", chosen, err)
	}
	if all, err := build.Named("kubelet"); err != nil || len(all) != len(minorFolders(t)) {
		t.Errorf("%d kubelets were chosen, error %v; want one for each folder of payload/kubernetes", len(all), err)
	}
	if _, err := build.Named("kubelet", "kubelett"); err == nil || !strings.Contains(err.Error(), `component "kubelett" does not exist; the components are wicd, hybrid-overlay-node, wicd-cni, kubelet, `) {
		t.Errorf("error is %v", err)
	}
}

// TestKubernetesPinsHaveOneVersion: Kubernetes requires its staged modules (k8s.io/api and others) in version v0.0.0, so that replace
// lines determine them. A pin that is raised without them would build a kubelet of two versions, with the stamp of one.
func TestKubernetesPinsHaveOneVersion(t *testing.T) {
	files := minorFolders(t)
	for _, pattern := range []string{"lab/go.mod", "lab/cluster/kubernetes/*/go.mod", "lab/suites/upstream/go.mod"} {
		more, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(more) == 0 {
			t.Fatalf("%s matches %q (%v)", pattern, more, err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		mod, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pinned := regexp.MustCompile(`(?m)k8s\.io/kubernetes v1\.(\d+)(\.\d+)`).FindStringSubmatch(string(mod))
		replaced := regexp.MustCompile(`(?m)^\t(k8s\.io/\S+) => k8s\.io/\S+ v0\.(\S+)$`).FindAllStringSubmatch(string(mod), -1)
		if pinned == nil || len(replaced) < 20 {
			t.Errorf("%s pins Kubernetes to %q and replaces %d of its modules", file, pinned, len(replaced))
			continue
		}
		for _, module := range replaced {
			if module[2] != pinned[1]+pinned[2] {
				t.Errorf("%s pins Kubernetes 1.%s%s and replaces %s with 0.%s", file, pinned[1], pinned[2], module[1], module[2])
			}
		}
		if folder := filepath.Base(filepath.Dir(file)); strings.HasPrefix(folder, "1.") && folder != "1."+pinned[1] {
			t.Errorf("%s pins Kubernetes 1.%s", file, pinned[1])
		}
	}
}

// minorFolders returns the go.mod of each folder of payload/kubernetes.
func minorFolders(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join("..", "kubernetes", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	return folders
}
