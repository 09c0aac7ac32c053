package artifacts

import (
	"strings"
	"testing"
)

const changelog = `# Changelog

## Unreleased

### Added
- Next.

## 1.2.0 - 2027-01-02

### Added
- One.

### Fixed
- Two.

## [1.1.0] (2026-12-01)
- Old.

## 1.0.0
`

func TestNotesContainSectionOfVersion(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.0":                  "### Added\n- One.\n\n### Fixed\n- Two.\n",
		"1.1.0":                  "- Old.\n",
		"0.0.0-g1a2b3c4":         "### Added\n- Next.\n",
		"1.2.0-5-g1a2b3c4-dirty": "### Added\n- Next.\n",
	} {
		if got, err := Notes(changelog, version); err != nil || got != want {
			t.Errorf("the notes of %s are %q (%v), want %q", version, got, err, want)
		}
	}
}

func TestMissingNotesAreRejected(t *testing.T) {
	for name, test := range map[string]struct{ changelog, version, wantErr string }{
		"no section":            {changelog, "1.3.0", `no section "## 1.3.0"; rename "## Unreleased"`},
		"a part of the name":    {changelog, "1.2", `no section "## 1.2"`},
		"a prerelease":          {changelog, "1.2.0-rc.1", `no section "## 1.2.0-rc.1"`},
		"an empty section":      {changelog, "1.0.0", `section "## 1.0.0" is empty`},
		"two sections":          {changelog + "\n## 1.1.0\n- x\n", "1.1.0", `two sections "## 1.1.0"`},
		"nothing at all":        {"", "1.1.0", `no section "## 1.1.0"`},
		"no section Unreleased": {"# Changelog\n", "0.0.0-g1a2b3c4", `no section "## Unreleased"`},
	} {
		if got, err := Notes(test.changelog, test.version); err == nil || !strings.Contains(err.Error(), test.wantErr) {
			t.Errorf("%s: got notes %q (%v), want error %q", name, got, err, test.wantErr)
		}
	}
}
