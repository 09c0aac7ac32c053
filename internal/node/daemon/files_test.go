package daemon_test

import (
	"encoding/json"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

func mustWrite(t *testing.T, d hostapi.Disk, name, content string) {
	t.Helper()
	if _, err := d.WriteFile(name, content); err != nil {
		t.Fatalf("writing %s: %v", name, err)
	}
}

func expectContent(t *testing.T, d hostapi.Disk, name, want string) {
	t.Helper()
	if got, err := d.Read(name); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
	}
}

func mustWriteJSON(t *testing.T, d hostapi.Disk, name string, value any) {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, d, name, string(b))
}
