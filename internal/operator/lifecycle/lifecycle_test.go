package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

func TestReleaseLineEndsAfterLastDay(t *testing.T) {
	line, known := lifecycle.Of(lifecycle.Kubernetes, "1.34")
	if !known {
		t.Fatal("Kubernetes 1.34 is not known")
	}
	for at, want := range map[string]bool{"2026-10-27T23:59:59Z": false, "2026-10-28T00:00:00Z": true, "2026-01-01T00:00:00Z": false} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := line.Ended(now); got != want {
			t.Errorf("at %s, 1.34 has ended: %t, want %t", at, got, want)
		}
	}
	if _, known := lifecycle.Of(lifecycle.OpenShift, "1.34"); known {
		t.Error("OpenShift has no line 1.34")
	}
}

func TestReleaseLinesAreUniqueWithSource(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range lifecycle.Lines() {
		if key := l.Product + " " + l.Name; seen[key] || !strings.HasPrefix(l.Source, "https://") || l.Ends.Year() < 2026 {
			t.Errorf("%s is there twice (%t), or has the source %q or the end %s", key, seen[key], l.Source, l.Ends)
		}
		seen[l.Product+" "+l.Name] = true
	}
}

func TestEachWindowsReleaseHasEndOfSupport(t *testing.T) {
	for _, r := range windowsbuild.Releases() {
		name := strings.TrimPrefix(r.Name, lifecycle.WindowsServer+" ")
		if _, known := lifecycle.Of(lifecycle.WindowsServer, name); !known {
			t.Errorf("%s has no end of support", r.Name)
		}
	}
}
