// Package payloadtest finds the versions and the source of programs in the payload, for tests that compare the project's assumptions
// with them.
package payloadtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/windows-machine-config/wmco/payload/build"
)

// Version returns the version of a program, such as "containerd", that the payload pins; for "kubelet", the newest one. root is the
// folder of the repository.
func Version(t testing.TB, root, program string) string {
	t.Helper()
	components, err := build.Named(program)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := build.PinOf(root, components[len(components)-1])
	if err != nil {
		t.Fatal(err)
	}
	return pin.Version
}

// Required returns the version of a package's module that the go.mod of a folder requires.
func Required(t testing.TB, folder, pkg string) string {
	t.Helper()
	pin, err := build.PinIn(folder, pkg)
	if err != nil {
		t.Fatal(err)
	}
	return pin.Version
}

// Kubernetes returns the folders with the sources of Kubernetes by minor version, in the versions that the payload pins. root is the
// folder of the repository.
func Kubernetes(t *testing.T, root string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "payload", "kubernetes", "*", "go.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("minor versions in the payload: %v, %v", files, err)
	}
	dirs := map[string]string{}
	for _, file := range files {
		dir := filepath.Dir(file)
		dirs[filepath.Base(dir)] = Source(t, dir, "k8s.io/kubernetes")
	}
	return dirs
}

// Source returns the folder with the sources of a module, in the version that the module in dir requires. It downloads them if the module
// cache does not have them.
func Source(t *testing.T, dir, module string) string {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	download.Dir = dir
	output, err := download.Output()
	var downloaded struct{ Dir, Error string }
	if failed := json.Unmarshal(output, &downloaded); err != nil || failed != nil {
		t.Fatalf("%s in %s: %v, %v: %s", module, dir, err, failed, downloaded.Error)
	}
	return downloaded.Dir
}
