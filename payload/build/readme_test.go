package build

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestReadmeListsPinnedVersions compares the table of checksums with the pinned versions.
func TestReadmeListsPinnedVersions(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, want []Pin
	for _, row := range regexp.MustCompile(`(?m)^\| (\S+\.exe) \| (\S+) \|`).FindAllSubmatch(text, -1) {
		listed = append(listed, Pin{Module: string(row[1]), Version: string(row[2])})
	}
	for _, c := range Components() {
		pin, err := PinOf("../..", c)
		if err != nil {
			t.Fatal(err)
		}
		if pin.Version != "" {
			want = append(want, Pin{Module: c.Path, Version: pin.Version})
		}
	}
	for _, file := range want {
		if !slices.Contains(listed, file) {
			t.Errorf("payload/README.md has no row for %s %s; a row without figures marks them as not measured", file.Module, file.Version)
		}
	}
	for _, file := range listed {
		if !slices.Contains(want, file) {
			t.Errorf("payload/README.md has a row for %s %s, which the payload no longer has", file.Module, file.Version)
		}
	}
}
