package artifacts

import (
	"fmt"
	"regexp"
	"strings"
)

// unreleased is the section of the changelog for changes that no release contains yet.
const unreleased = "Unreleased"

// Notes returns the section of a changelog for a version, without its heading. Builds of untagged commits, as in 0.0.0-g1a2b3c4
// (hack/version.sh), get the section Unreleased. Missing and empty sections are errors.
func Notes(changelog, version string) (string, error) {
	section := version
	if regexp.MustCompile(`-g[0-9a-f]{7,40}(-dirty)?$`).MatchString(version) {
		section = unreleased
	}
	var text strings.Builder
	found, inside := false, false
	for line := range strings.Lines(changelog) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(heading), " ") // a date may follow
			inside = strings.Trim(name, "[]") == section
			if inside && found {
				return "", fmt.Errorf("reading the changelog: it has two sections %q", "## "+section)
			}
			found = found || inside
			continue
		}
		if inside {
			text.WriteString(line)
		}
	}
	notes := strings.TrimSpace(text.String())
	switch {
	case !found:
		return "", fmt.Errorf("reading the changelog: it has no section %q; rename %q and add an empty one above it (RELEASE.md)", "## "+section, "## "+unreleased)
	case notes == "":
		return "", fmt.Errorf("reading the changelog: section %q is empty", "## "+section)
	}
	return notes + "\n", nil
}
