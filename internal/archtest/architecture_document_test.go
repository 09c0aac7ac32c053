package archtest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureDocument compares the table of packages in docs/architecture.md with the tree: each package has its row, and imports only
// packages in the same row or below it.
func TestArchitectureDocument(t *testing.T) {
	inRoot(t)
	rows := map[string]int{}
	for n, m := range regexp.MustCompile("(?m)^\\| (`[a-z0-9/-]+`(?:, `[a-z0-9/-]+`)*) \\|").FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			rows[strings.Trim(name, "`")] = n
		}
	}
	allowed := mayImport()
	for dir, imports := range allowed {
		row, ok := rows[dir]
		if !ok && dir != "." {
			t.Errorf("docs/architecture.md does not list package %s", dir)
		}
		for _, below := range imports {
			if rows[below] < row {
				t.Errorf("docs/architecture.md lists %s below %s, which it imports", dir, below)
			}
		}
	}
	for dir := range rows {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("docs/architecture.md lists %s, which does not exist", dir)
		}
	}
}
