package configure

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

func TestLastDISMErrorsAreReported(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	if got := dismErrors(d); got != "" {
		t.Errorf("without a log: %q", got)
	}
	lines := []string{
		"2026-11-25 10:00:00, Info                  DISM   PID=4 starts",
		"2026-11-25 10:00:01, Error                 DISM   first",
		"2026-11-25 10:00:02, Error                 DISM   password=hunter2verysecret second",
		"2026-11-25 10:00:03, Warning               DISM   a warning, Error of nobody",
		"2026-11-25 10:00:04, Error                 DISM   " + strings.Repeat("x", 4096),
		"2026-11-25 10:00:05, Error                 DISM   Failed. hr = 0x800f081f",
	}
	if _, err := d.WriteFile(dismLog, strings.Join(lines, "\r\n")); err != nil {
		t.Fatal(err)
	}
	got := dismErrors(d)
	for _, missing := range []string{"first", "a warning", "starts", "hunter2"} {
		if strings.Contains(got, missing) {
			t.Errorf("%q has %q", got, missing)
		}
	}
	if !strings.Contains(got, "second") || !strings.HasSuffix(got, "hr = 0x800f081f") || len(got) > 1024 {
		t.Errorf("got %q", got)
	}
}

func FuzzErrorsOfDISM(f *testing.F) {
	f.Add("2026-11-25 10:00:05, Error                 DISM   Failed. hr = 0x800f081f\r\n")
	f.Add("\xff, Error\x00\n, Error")
	f.Fuzz(func(t *testing.T, text string) {
		lines := errorsOf(text)
		if len(lines) > dismLines {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if len(line) > dismLineBytes || !utf8.ValidString(line) {
				t.Errorf("%q has %d bytes", line, len(line))
			}
		}
	})
}
