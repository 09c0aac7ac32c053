// Package payloadtest finds the source of programs in the payload, for tests that compare what we know of them with it.
package payloadtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// Kubernetes are the folders of Kubernetes' source, by minor version, in the versions that the payload pins. It downloads what the module cache
// does not have. Root is the folder of the repository.
func Kubernetes(t *testing.T, root string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "payload", "kubernetes", "*", "go.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("minor versions in the payload: %v, %v", files, err)
	}
	dirs := map[string]string{}
	for _, file := range files {
		download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes")
		download.Dir = filepath.Dir(file)
		output, err := download.Output()
		var module struct{ Dir, Error string }
		if failed := json.Unmarshal(output, &module); err != nil || failed != nil {
			t.Fatalf("%s: %v, %v: %s", file, err, failed, module.Error)
		}
		dirs[filepath.Base(download.Dir)] = module.Dir
	}
	return dirs
}
