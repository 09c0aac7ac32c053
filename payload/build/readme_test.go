package build

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestReadmeListsEachProgramInItsVersion compares the table of checksums with the pinned versions.
func TestReadmeListsEachProgramInItsVersion(t *testing.T) {
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
			t.Errorf("payload/README.md has no row of %s %s; without figures, it says that they are to be measured", file.Module, file.Version)
		}
	}
	for _, file := range listed {
		if !slices.Contains(want, file) {
			t.Errorf("payload/README.md has a row of %s %s, which the payload has no more", file.Module, file.Version)
		}
	}
}
