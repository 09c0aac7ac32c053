package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestRecipesReferToExistingPaths checks the paths in docs/development.md: those that begin the numbered steps of its
// recipes, and all others.
func TestRecipesReferToExistingPaths(t *testing.T) {
	inRoot(t)
	text := read(t, "docs/development.md")
	recipes := strings.Split(text, "\n## Recipe: ")[1:]
	if len(recipes) == 0 {
		t.Error("docs/development.md has no recipe")
	}
	step := regexp.MustCompile("(?m)^([0-9]+)\\. (`[^`]+`: )?")
	for _, recipe := range recipes {
		name, _, _ := strings.Cut(recipe, "\n")
		steps := step.FindAllStringSubmatch(recipe, -1)
		if len(steps) < 3 {
			t.Errorf("recipe %q has %d steps, want at least 3", name, len(steps))
		}
		for _, s := range steps {
			if s[2] == "" {
				t.Errorf("step %s of recipe %q does not begin with a path, as in `api/conditions.go`: ...", s[1], name)
			}
		}
	}
	file := regexp.MustCompile("`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*)`")
	for _, m := range file.FindAllStringSubmatch(text, -1) {
		name := m[1]
		isFile := slices.Contains([]string{".go", ".md", ".yaml", ".yml", ".mod", ".ps1"}, path.Ext(name))
		isPath := strings.Contains(name, "/") && !strings.Contains(strings.SplitN(name, "/", 2)[0], ".io")
		if _, err := os.Stat(name); err != nil && (isFile || isPath) {
			t.Errorf("docs/development.md names %s, which does not exist", name)
		}
	}
}

// TestGlossaryIsShortAndSorted expects at most thirty terms in alphabetical order.
func TestGlossaryIsShortAndSorted(t *testing.T) {
	inRoot(t)
	var terms []string
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(.+?)\*\*: `).FindAllStringSubmatch(read(t, "docs/glossary.md"), -1) {
		terms = append(terms, strings.ToLower(m[1]))
	}
	if len(terms) == 0 || len(terms) > 30 {
		t.Errorf("docs/glossary.md has %d terms, want 1 to 30", len(terms))
	}
	if !slices.IsSorted(terms) {
		t.Errorf("the terms of docs/glossary.md are not in alphabetical order: %v", terms)
	}
}

// TestDisconnectedDocumentListsImages compares the list with the images that are installed and rendered.
func TestDisconnectedDocumentListsImages(t *testing.T) {
	inRoot(t)
	text := read(t, "docs/disconnected.md")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+:[^`]+)` \\|").FindAllStringSubmatch(text, -1) {
		listed = append(listed, m[1])
	}
	operator := regexp.MustCompile(`- name: (\S+)\n  newTag: (\S+)`).FindStringSubmatch(read(t, "deploy/kustomization.yaml"))
	if operator == nil {
		t.Fatal("deploy/kustomization.yaml names no image")
	}
	want := []string{operator[1] + ":" + operator[2], desired.DefaultSandboxImage}
	if !slices.Equal(listed, want) {
		t.Errorf("docs/disconnected.md lists %q, want %q", listed, want)
	}
	for _, image := range want {
		if _, path, _ := strings.Cut(image, "/"); !strings.Contains(text, "docker://"+image+" docker://registry.example.com/"+path) {
			t.Errorf("docs/disconnected.md does not describe how to mirror %s", image)
		}
	}
}

// TestDocumentsCoverKnownReports expects what users of other projects had to find out.
func TestDocumentsCoverKnownReports(t *testing.T) {
	inRoot(t)
	for _, report := range []struct{ document, text, link string }{
		{"docs/tasks/prepare-host.md", "0x800f0954", "https://github.com/MicrosoftDocs/windowsserverdocs/issues/7843"}, // OpenSSH behind WSUS
		{"docs/fleet.md", "`nodeStartupTimeout`", "https://github.com/Azure/ARO-RP/issues/2647"},
		{"docs/machines.md", "ec2launch reset", "https://github.com/hashicorp/packer/issues/6750"},
	} {
		if !strings.Contains(read(t, report.document), report.text) {
			t.Errorf("%s does not contain %q; see %s", report.document, report.text, report.link)
		}
	}
	// The name of the group is in the language of Windows: https://github.com/MicrosoftDocs/windowsserverdocs/issues/7392
	if strings.Contains(read(t, "docs/tasks/prepare-host.md"), `BUILTIN\`) {
		t.Error(`docs/tasks/prepare-host.md has an English name of a group; use its SID`)
	}
}

// TestNoDocumentRequiresImagesOfSameBuild: Windows Server 2025 also runs images of 2022 (docs/workloads.md).
func TestNoDocumentRequiresImagesOfSameBuild(t *testing.T) {
	inRoot(t)
	same := regexp.MustCompile(`(?i)build of Windows must (?:match|be the same)|must match the (?:image|node|host)\b`)
	for _, name := range checkedDocuments(t) {
		if found := same.FindString(strings.Join(strings.Fields(read(t, name)), " ")); found != "" {
			t.Errorf("%s contains %q, but a node also runs some images of earlier builds", name, found)
		}
	}
}

// TestDependabotCoversEveryModule compares .github/dependabot.yml with the folders that have a go.mod.
func TestDependabotCoversEveryModule(t *testing.T) {
	inRoot(t)
	config := read(t, ".github/dependabot.yml")
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		folder := strings.TrimSuffix("/"+path.Dir(filepath.ToSlash(name)), "/.")
		if folder == "" {
			folder = "/"
		}
		if !strings.Contains(config, "gomod\n    directory: "+folder+"\n") {
			t.Errorf(".github/dependabot.yml has no entry gomod with directory %s", folder)
		}
		return nil
	})
	must(t, err)
}

// TestDocumentsAreWrappedAndPlain limits lines of text, except tables and code, to 120 columns, and rejects words that
// administrators do not search for.
func TestDocumentsAreWrappedAndPlain(t *testing.T) {
	inRoot(t)
	unusual := unusualWords()
	tests := regexp.MustCompile("`[^`]*`")
	for _, name := range checkedDocuments(t) {
		code := false
		for i, line := range strings.Split(read(t, name), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code || strings.HasPrefix(line, "|") && name == "docs/architecture.md" {
				continue
			}
			if !strings.HasPrefix(line, "|") && utf8.RuneCountInString(line) > 120 && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s:%d has more than 120 columns", name, i+1)
			}
			if word := unusual.FindString(tests.ReplaceAllString(line, "")); word != "" {
				t.Errorf("%s:%d contains %q; use the terms of docs/glossary.md and of Kubernetes", name, i+1, word)
			}
		}
	}
}

// TestLinkFragmentsMatchHeadings checks the fragment of every link between documents; TestDocumentLinksExist checks the
// files.
func TestLinkFragmentsMatchHeadings(t *testing.T) {
	inRoot(t)
	link := regexp.MustCompile(`\]\(([A-Za-z0-9._/-]*)#([^)\s]+)\)`)
	for _, name := range checkedDocuments(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			target := name
			if m[1] != "" {
				target = path.Join(path.Dir(name), m[1])
			}
			if !slices.Contains(anchors(read(t, target)), m[2]) {
				t.Errorf("%s links to %s#%s, and that document has no such heading", name, target, m[2])
			}
		}
	}
}

// anchors returns the names that GitHub derives from the headings of a document.
func anchors(text string) (names []string) {
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}

// checkedDocuments returns the documents that are checked here. Decision records and the changelog remain as they were written.
func checkedDocuments(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"docs/*.md", "docs/tasks/*.md", "docs/reference/*.md", "docs/runbooks/*.md"} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		names = append(names, found...)
	}
	return append(names, "README.md", "CONTRIBUTING.md", "REVIEWING.md", "RELEASE.md", "SECURITY.md",
		"deploy/README.md", "payload/README.md", "lab/README.md")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}

// TestEachDecisionIsListed expects each record with its title in docs/decisions/README.md.
func TestEachDecisionIsListed(t *testing.T) {
	inRoot(t)
	records, err := filepath.Glob("docs/decisions/0*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("docs/decisions has %d records (%v)", len(records), err)
	}
	list := read(t, "docs/decisions/README.md")
	for _, name := range records {
		title, _, _ := strings.Cut(strings.TrimPrefix(read(t, name), "# "), "\n")
		if want := fmt.Sprintf("- [%s](%s)", title, filepath.Base(name)); !strings.Contains(list, want) {
			t.Errorf("docs/decisions/README.md does not have %q", want)
		}
	}
}

// TestDocumentLinksExist checks every relative link of the documents.
func TestDocumentLinksExist(t *testing.T) {
	inRoot(t)
	link := regexp.MustCompile(`\]\(([A-Za-z0-9._/][^)#:\s]*)(#[^)]*)?\)`)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
		return nil
	})
	must(t, err)
}
