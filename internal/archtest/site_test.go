package archtest

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestSiteHasEveryDocument compares the navigation of the site (mkdocs.yml) with docs/: readers would not find a page that the
// navigation lacks. mkdocs itself, which needs Python, runs in make e2e.
func TestSiteHasEveryDocument(t *testing.T) {
	inRoot(t)
	var site struct {
		Navigation []any `json:"nav"`
	}
	must(t, yaml.Unmarshal([]byte(read(t, "mkdocs.yml")), &site))
	listed := pagesOf(site.Navigation)
	pages := map[string]bool{}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		for _, name := range found {
			pages[strings.TrimPrefix(filepath.ToSlash(name), "docs/")] = true
		}
	}
	for name := range pages {
		if !slices.Contains(listed, name) && !slices.Contains(listed, path.Dir(name)+"/") {
			t.Errorf("docs/%s is not in the navigation of mkdocs.yml", name)
		}
	}
	for _, name := range listed {
		if _, err := os.Stat(path.Join("docs", name)); err != nil {
			t.Errorf("mkdocs.yml lists %s, which does not exist", name)
		}
	}
}

// pagesOf returns all pages of a navigation.
func pagesOf(entries []any) (pages []string) {
	for _, entry := range entries {
		for _, value := range entry.(map[string]any) {
			switch value := value.(type) {
			case string:
				pages = append(pages, value)
			case []any:
				pages = append(pages, pagesOf(value)...)
			}
		}
	}
	return pages
}

// TestReadmeLinksEveryDocument: readers of the repository, rather than the site, would not find a page without a link.
func TestReadmeLinksEveryDocument(t *testing.T) {
	inRoot(t)
	readme := read(t, "README.md")
	pages, err := filepath.Glob("docs/*.md")
	must(t, err)
	for _, name := range pages {
		if name = filepath.ToSlash(name); !strings.Contains(readme, "]("+name) {
			t.Errorf("README.md has no link to %s", name)
		}
	}
}

// TestTaskPagesAreShortWithCommands limits the length of task pages, and requires commands in them.
func TestTaskPagesAreShortWithCommands(t *testing.T) {
	inRoot(t)
	tasks, err := filepath.Glob("docs/tasks/*.md")
	if err != nil || len(tasks) < 10 {
		t.Fatalf("%d task pages: %v", len(tasks), err)
	}
	for _, name := range tasks {
		text := read(t, name)
		if lines := strings.Count(text, "\n"); lines > 90 {
			t.Errorf("%s has %d lines; a task has at most 90", name, lines)
		}
		if !strings.Contains(text, "```") {
			t.Errorf("%s has no command and no object", name)
		}
	}
}
