//go:build linux

package lab

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

// TestImagesHaveTheTagsOfTheSuite compares the tags of the images with those that the suite of lab/suites/upstream uses.
func TestImagesHaveTheTagsOfTheSuite(t *testing.T) {
	source := payloadtest.Source(t, "suites/upstream", "k8s.io/kubernetes")
	manifest, err := os.ReadFile(filepath.Join(source, "test/utils/image/manifest.go"))
	must(t, err)
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
