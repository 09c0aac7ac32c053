package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/windows-machine-config/wmco/payload/build"
)

func TestPageIsThatOfTheCode(t *testing.T) {
	want, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	if is, err := os.ReadFile("../../docs/support.md"); err != nil || !bytes.Equal(is, want) {
		t.Errorf("docs/support.md is not what the code says (%v): run make generate", err)
	}
}

func TestEachKubeletHasItsOpenShift(t *testing.T) {
	for _, minor := range build.Minors() {
		if openShift()[minor] == "" {
			t.Errorf("there is no version of OpenShift for Kubernetes %s", minor)
		}
	}
}

func TestVersionIsThatOfTheModuleOfThePackage(t *testing.T) {
	const mod = "module m\n\nrequire k8s.io/kubernetes v1.36.3\n\nrequire (\n\tk8s.io/component-base v0.36.3 // indirect\n\tk8s.io/kube v0.1.0\n\tk8s.io/api v0.37.0\n)\n\nreplace k8s.io/other => ./other\n" +
		"\nreplace (\n\tk8s.io/api v0.37.0 => k8s.io/api v0.36.1\n\tk8s.io/kube => k8s.io/kube v0.2.0\n)\n"
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubelet": "v1.36.3", "k8s.io/component-base/logs": "v0.36.3", "k8s.io/kube": "v0.2.0", "k8s.io/api/core/v1": "v0.36.1", "k8s.io/other": "", "example.com/x": "",
	} {
		if got, err := pinned(mod, pkg); got != want || (err == nil) != (want != "") {
			t.Errorf("package %s has version %q (%v), want %q", pkg, got, err, want)
		}
	}
}
