package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package v1

// Host is a computer.
//
// +kubebuilder:validation:XValidation:rule="has(self.name)",message="a host has a name"
type Host struct {
	// name is the name of the host.
	// See AnnotationName.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=` + "`^(a|b)$`" + `
	// +required
	Name string ` + "`json:\"name\"`" + `

	// port is the SSH port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=22
	// +optional
	Port int32 ` + "`json:\"port,omitempty\"`" + `

	// mode is the mode of the host.
	// +optional
	Mode Mode ` + "`json:\"mode,omitempty\"`" + `

	// others are further hosts.
	// +kubebuilder:validation:MaxItems=3
	// +optional
	Others []Host ` + "`json:\"others,omitempty\"`" + `
}

// Mode is a way to work.
// +kubebuilder:validation:Enum=Fast;Careful
type Mode string

// The modes.
const (
	// ModeFast saves <time>.
	ModeFast Mode = "Fast"
	// Careful takes its time.
	Careful Mode = "Careful"
)

const group = "example.com"

// Annotations. The user writes them.
const (
	// AnnotationName is the name of the host.
	AnnotationName = group + "/name"
)
`

const want = `# Objects and names

Generated from ` + "`api` by `make generate`" + `; edit the comments there.

## Host

Host is a computer.

Rules:

- a host has a name

| field | type | default | allowed | meaning |
| --- | --- | --- | --- | --- |
| 'name' | string | required | 1 to 63 characters; pattern '^(a\|b)$' | 'name' is the name of the host. See 'example.com/name'. |
| 'port' | integer | '22' | 1 to 65535 | 'port' is the SSH port. |
| 'mode' | string |  | 'Fast', 'Careful' | 'mode' is the mode of the host. |
| 'others' | list of [Host](#host) |  | at most 3 items | 'others' are further hosts. |

## Mode

Mode is a way to work.

- 'Fast' saves \<time>.
- 'Careful' takes its time.

'example.com'

## Annotations

The user writes them.

- 'example.com/name' is the name of the host.
`

func TestThePageHasTypesDefaultsAndAllowedValues(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "host.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := render([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(want, "'", "`"); string(page) != want {
		t.Errorf("the page is\n%s\nwant\n%s", page, want)
	}
}

func TestEveryFieldOfTheProductsKindsIsDescribed(t *testing.T) {
	page, err := render([]string{"../../api", "../../api/v1alpha1"})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		if len(cells) != 5 || cells[1] == "" || !strings.HasPrefix(cells[4], strings.TrimPrefix(cells[0], "| ")+" ") {
			t.Errorf("this row has no type, or no sentence that begins with the field: %s", line)
		}
	}
}
