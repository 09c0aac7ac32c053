package win

import (
	"os"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// TestOpenFileGetsSecondName: WICD gives its own open log the name that must-gather collects. Windows cannot rename an open file.
func TestOpenFileGetsSecondName(t *testing.T) {
	d, folder := hostapi.Disk{}, tempFolder(t)
	one, other := folder+`\wicd.log`, folder+`\wicd.INFO`
	if _, err := d.WriteFile(other, "of another day"); err != nil {
		t.Fatal(err)
	}
	f, _, err := d.Append(one)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2 {
		if err := d.LinkOpen(one, other); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteString("a line"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "a line" {
		t.Errorf("the second name has %q, %v", text, err)
	}
}
