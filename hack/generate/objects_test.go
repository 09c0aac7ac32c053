package main

import (
	"strings"
	"testing"
)

func TestEveryFieldIsDescribed(t *testing.T) {
	files, err := objects("../..")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(files["docs/objects.md"])) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		if len(cells) != 5 || cells[1] == "" || !strings.HasPrefix(cells[4], strings.TrimPrefix(cells[0], "| ")+" ") {
			t.Errorf("this row has no type, or no sentence that begins with the field: %s", line)
		}
	}
}
