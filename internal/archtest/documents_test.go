package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
)

// TestEveryDocumentedCommandIsRun: each block of commands or objects in a document is in a story that a test runs, or a comment before it gives
// the reason why not. A document of which nothing is run is in a list that describes what is tested of it.
func TestEveryDocumentedCommandIsRun(t *testing.T) {
	inRoot(t)
	reported := map[string]bool{}
	for _, document := range allDocuments(t) {
		blocks, err := documents.Blocks(document, read(t, document))
		if err != nil {
			t.Error(err)
		}
		blocks = slices.DeleteFunc(blocks, func(b documents.Block) bool { return !b.IsCode() })
		entry := entryWithoutStory(document)
		switch {
		case isInStory(document):
			if entry != "" {
				t.Errorf("%s is in a story and also in the list of documents without one", document)
			}
			checkBlocks(t, blocks)
		case len(blocks) == 0:
		case entry == "":
			t.Errorf("no test runs the commands of %s: add it to a story in internal/testing/documents, or describe there what is tested", document)
		default:
			reported[entry] = true
		}
	}
	for entry := range documents.WithoutStory() {
		if !reported[entry] {
			t.Errorf("internal/testing/documents lists %s, which does not exist or has no commands", entry)
		}
	}
}

func checkBlocks(t *testing.T, blocks []documents.Block) {
	t.Helper()
	for _, b := range blocks {
		steps := 0
		for _, s := range documents.Stories() {
			if slices.ContainsFunc(s.Steps, func(s documents.Step) bool { return s.Of(b) }) {
				steps++
			}
		}
		switch {
		case b.NotRun == "" && steps == 0:
			t.Errorf("no story has %s, %q: add the section to one in internal/testing/documents, or a comment <!-- not run: reason --> before the block", b, b.Heading)
		case b.NotRun == "" && b.Language == "powershell":
			t.Errorf("%s is for Windows, where no test runs it: add a comment <!-- not run: reason --> before it", b)
		case b.NotRun != "" && len(strings.Fields(b.NotRun)) < 3:
			t.Errorf("%s has the comment %q, which gives no reason", b, b.NotRun)
		}
	}
}

// TestStoriesReferToDocumentsAndTests checks that the documents, headings and tests of stories exist.
func TestStoriesReferToDocumentsAndTests(t *testing.T) {
	inRoot(t)
	for _, s := range documents.Stories() {
		folder, test, named := strings.Cut(s.Test, ".")
		if found, err := filepath.Glob(folder + "/*_test.go"); err != nil || len(found) == 0 || named && !hasFunction(t, folder, test) {
			t.Errorf("a story refers to test %s, which does not exist", s.Test)
		}
		for _, step := range s.Steps {
			if text := "\n" + read(t, step.Document); step.Heading != "" && !strings.Contains(text, "\n"+step.Heading+"\n") {
				t.Errorf("%s has no heading %q", step.Document, step.Heading)
			}
		}
	}
}

// TestCommandBlocksHaveLanguage ensures that blocks without a language do not bypass TestEveryDocumentedCommandIsRun.
func TestCommandBlocksHaveLanguage(t *testing.T) {
	inRoot(t)
	command := regexp.MustCompile(`(?m)^(\$ )?(kubectl|oc|helm|make|skopeo|ssh-keygen|apiVersion:) ?`)
	for _, document := range allDocuments(t) {
		blocks, _ := documents.Blocks(document, read(t, document))
		for _, b := range blocks {
			if found := command.FindString(b.Text); !b.IsCode() && found != "" && b.Language != "json" {
				t.Errorf("%s has language %q and the command %q", b, b.Language, found)
			}
		}
	}
}

func isInStory(document string) bool {
	return slices.ContainsFunc(documents.Stories(), func(s documents.Story) bool {
		return slices.ContainsFunc(s.Steps, func(s documents.Step) bool { return s.Document == document })
	})
}

// entryWithoutStory returns the list entry that covers a document.
func entryWithoutStory(document string) string {
	for entry := range documents.WithoutStory() {
		if entry == document || strings.HasSuffix(entry, "/") && strings.HasPrefix(document, entry) {
			return entry
		}
	}
	return ""
}

// allDocuments returns all Markdown files of the repository.
func allDocuments(t *testing.T) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), "_")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "docs/decisions/") {
			names = append(names, name)
		}
		return nil
	})
	must(t, err)
	return names
}
