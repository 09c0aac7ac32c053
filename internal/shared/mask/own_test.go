package mask_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/testing/documents"
)

const root = "../../.."

// TestOwnMessagesAreNotMasked masks every string in the programs' code: conditions and events are masked, and the commands in them are for
// users to run.
func TestOwnMessagesAreNotMasked(t *testing.T) {
	m, verbs, texts := mask.New(), regexp.MustCompile(`%[-+#0-9.*\[\]]*[a-zA-Z]`), 0
	for _, folder := range []string{"api", "cmd", "internal"} {
		eachFile(t, filepath.Join(root, folder), ".go", func(path string, content []byte) {
			if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/internal/testing/sim/") || strings.Contains(path, "/internal/shared/mask/") {
				return
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				text = verbs.ReplaceAllString(text, "10 of them")
				if strings.Count(text, " ") < 2 || strings.Contains(text, `json:"`) {
					return true
				}
				texts++
				if got := m.Text(text); got != text {
					t.Errorf("%s: %q becomes %q", path, text, got)
				}
				return true
			})
		})
	}
	if texts < 2000 {
		t.Errorf("%d texts were found", texts)
	}
}

// TestDocumentCommandsAreNotMasked masks the commands in documents.
func TestDocumentCommandsAreNotMasked(t *testing.T) {
	m, commands := mask.New(), 0
	for _, folder := range []string{"docs", "deploy"} {
		eachFile(t, filepath.Join(root, folder), ".md", func(path string, content []byte) {
			blocks, err := documents.Blocks(path, string(content))
			if err != nil {
				t.Error(err)
			}
			for _, b := range blocks {
				if !b.IsCode() || b.Language == "yaml" {
					continue
				}
				commands++
				if got := m.Text(b.Text); got != b.Text {
					t.Errorf("%s: %s becomes %s", b, b.Text, got)
				}
			}
		})
	}
	if commands < 100 {
		t.Errorf("%d blocks of commands were found", commands)
	}
}

func eachFile(t *testing.T, folder, suffix string, do func(path string, content []byte)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		content, err := os.ReadFile(path)
		do(filepath.ToSlash(path), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
