//go:build linux

package lab

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestImagesAreThoseOfTheSuite compares the tags of the images with those that the suite of lab/upstream asks for.
func TestImagesAreThoseOfTheSuite(t *testing.T) {
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes")
	download.Dir = "upstream"
	output, err := download.Output()
	var module struct{ Dir, Error string }
	if failed := json.Unmarshal(output, &module); err != nil || failed != nil {
		t.Fatalf("%v, %v: %s", err, failed, module.Error)
	}
	manifest, err := os.ReadFile(filepath.Join(module.Dir, "test/utils/image/manifest.go"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`Config\{list\.PromoterE2eRegistry, "([^"]+)", "([^"]+)"\}`).FindAllStringSubmatch(string(manifest), -1) {
		want = append(want, m[1]+":"+m[2])
	}
	for _, image := range testImages() {
		for _, name := range image.names {
			if got := strings.TrimPrefix(name, testRegistry); !slices.Contains(want, got) {
				t.Errorf("the suite has no image %s, only %s", got, strings.Join(want, ", "))
			}
		}
	}
}
