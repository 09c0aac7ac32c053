package logrotate

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func mustRead(t *testing.T, d hostapi.Disk, name string) string {
	t.Helper()
	b, err := d.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWICDLogHasMustGatherNames(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	log := OpenLogger(d, desired.WICDLog)
	defer log.Close()
	if got := mustRead(t, d, desired.WICDLogByLevel+"ERROR"); got != "" {
		t.Errorf("before the first line, ERROR has %q", got)
	}
	logger := slog.New(log.Handler).With("part", "test")
	logger.Info("one")
	logger.Warn("two")
	logger.Error("three")
	for name, want := range map[string]string{
		desired.WICDLog:                    "one two three",
		desired.WICDLogByLevel + "INFO":    "one two three",
		desired.WICDLogByLevel + "WARNING": "two three",
		desired.WICDLogByLevel + "ERROR":   "three",
	} {
		var reported []string
		for line := range strings.Lines(mustRead(t, d, name)) {
			_, rest, _ := strings.Cut(line, `"msg":"`)
			message, _, _ := strings.Cut(rest, `"`)
			reported = append(reported, message)
		}
		if got := strings.Join(reported, " "); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

func TestRotationKeepsMustGatherNames(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	log := OpenLogger(d, desired.WICDLog)
	defer log.Close()
	logger := slog.New(log.Handler)
	logger.Error("before")
	for _, l := range logsOf(desired.Log{Path: desired.WICDLog}) {
		if err := Tidy(d, l, limits(1, time.Hour, 3), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	logger.Error("after")
	for _, name := range []string{desired.WICDLog, desired.WICDLogByLevel + "INFO", desired.WICDLogByLevel + "WARNING", desired.WICDLogByLevel + "ERROR"} {
		if got := mustRead(t, d, name); strings.Contains(got, "before") || !strings.Contains(got, "after") {
			t.Errorf("after the rotation, %s has %q", name, got)
		}
	}
	names, err := d.List(hostapi.Parent(desired.WICDLog))
	if err != nil || len(names) != 7 { // the four names, and a rotated file for each but INFO
		t.Errorf("the folder has %q, %v", names, err)
	}
	one, err := os.Stat(d.Local(desired.WICDLog))
	other, errOther := os.Stat(d.Local(desired.WICDLogByLevel + "INFO"))
	if err != nil || errOther != nil || !os.SameFile(one, other) {
		t.Errorf("after the rotation, INFO is another file than the log: %v, %v", err, errOther)
	}
}

func TestOtherLogsHaveOneName(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	log := OpenLogger(d, desired.Logs+`\wicd\update.log`)
	defer log.Close()
	slog.New(log.Handler).Error("one")
	names, err := d.List(desired.Logs + `\wicd`)
	if err != nil || len(names) != 1 {
		t.Errorf("the folder has %q, %v", names, err)
	}
}
