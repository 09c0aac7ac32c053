package build

import (
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestPinIsModuleVersionOfPackage(t *testing.T) {
	const mod = "module m\n\nrequire k8s.io/kubernetes v1.36.3\n\nrequire (\n\tk8s.io/component-base v0.36.3 // indirect\n\tk8s.io/kube v0.1.0\n\tk8s.io/api v0.37.0\n)\n\nreplace k8s.io/other => ./other\n" +
		"\nreplace (\n\tk8s.io/api v0.37.0 => k8s.io/api v0.36.1\n\tk8s.io/kube => k8s.io/kube v0.2.0\n)\n"
	for pkg, want := range map[string]Pin{
		"k8s.io/kubernetes/cmd/kubelet": {"k8s.io/kubernetes", "v1.36.3"}, "k8s.io/component-base/logs": {"k8s.io/component-base", "v0.36.3"},
		"k8s.io/kube": {"k8s.io/kube", "v0.2.0"}, "k8s.io/api/core/v1": {"k8s.io/api", "v0.36.1"}, "k8s.io/other": {}, "example.com/x": {},
	} {
		if got, err := pinned(mod, pkg); got != want || (err == nil) != (want != Pin{}) {
			t.Errorf("package %s is pinned to %v (%v), want %v", pkg, got, err, want)
		}
	}
}

// TestModulesHaveKnownFixes covers the modules of containers, whose vulnerabilities every scanner of the image reports. make
// vulncheck-payload covers all modules, with a database on the internet.
func TestModulesHaveKnownFixes(t *testing.T) {
	fixed := map[string]map[string]string{ // by release line
		"github.com/containerd/containerd/v2": {
			"2.1": "2.1.8", // CVE-2026-46680: https://github.com/containerd/containerd/pull/13489
			"2.3": "2.3.2", // CVE-2026-53488 and others: https://github.com/flatcar/Flatcar/issues/2182
		},
		"github.com/opencontainers/runc": {"1.2": "1.2.8"}, // CVE-2025-52881: https://github.com/opencontainers/runc/releases/tag/v1.2.8
	}
	files, err := filepath.Glob("../*/go.mod")
	more, _ := filepath.Glob("../kubernetes/*/go.mod")
	if err != nil || len(files) < 5 || len(more) == 0 {
		t.Fatal(files, more, err)
	}
	for _, file := range append(files, more...) {
		mod, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, required := range regexp.MustCompile(`(?m)^\t(\S+) v((\d+\.\d+)\.\S+)`).FindAllStringSubmatch(string(mod), -1) {
			lines, known := fixed[required[1]]
			if !known {
				continue
			}
			if least := lines[required[3]]; least == "" {
				t.Errorf("%s requires %s v%s: add the first version of line %s without known vulnerabilities", file, required[1], required[2], required[3])
			} else if version.Compare("go"+required[2], "go"+least) < 0 {
				t.Errorf("%s requires %s v%s, want v%s or later", file, required[1], required[2], least)
			}
		}
	}
}

func TestThirdPartyProgramsArePinned(t *testing.T) {
	for _, c := range Components() {
		pin, err := PinOf("../..", c)
		if err != nil || (pin == Pin{}) != (c.Module == ".") {
			t.Errorf("%s is pinned to %v (%v)", c.FullName(), pin, err)
		}
	}
}
