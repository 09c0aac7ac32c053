package logrotate

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

const containerdLog = `C:\var\log\containerd\containerd.log`

func limits(size int64, age time.Duration, count int) desired.LogLimits {
	return desired.LogLimits{Size: size, Age: metav1.Duration{Duration: age}, Count: count}
}

func TestLogRotationPlan(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	// file was changed this many hours ago.
	file := func(name string, size int64, hours int) foundLog {
		return foundLog{name: name, size: size, changed: now.Add(-time.Duration(hours) * time.Hour)}
	}
	aside := func(hours int) string { return rotatedName("containerd.log", now.Add(-time.Duration(hours)*time.Hour)) }
	full := limits(100, 24*time.Hour, 2)
	const next = "containerd-20261121-120000.log"
	for name, test := range map[string]struct {
		rotates bool
		found   []foundLog
		want    rotationPlan
	}{
		"no file yet":             {found: nil},
		"not full":                {found: []foundLog{file("containerd.log", 99, 0)}},
		"full":                    {found: []foundLog{file("containerd.log", 100, 0)}, want: rotationPlan{aside: next}},
		"full, and rotates":       {rotates: true, found: []foundLog{file("containerd.log", 200, 0)}},
		"as many as may be":       {found: []foundLog{file(aside(2), 100, 2), file(aside(1), 100, 1)}},
		"one too many":            {found: []foundLog{file(aside(3), 1, 3), file(aside(1), 1, 1), file(aside(2), 1, 2)}, want: rotationPlan{remove: []string{aside(3)}}},
		"too many and rotates":    {rotates: true, found: []foundLog{file(aside(3), 1, 3), file(aside(1), 1, 1), file(aside(2), 1, 2)}, want: rotationPlan{remove: []string{aside(3)}}},
		"too old":                 {found: []foundLog{file(aside(25), 1, 25)}, want: rotationPlan{remove: []string{aside(25)}}},
		"of one age, by name":     {found: []foundLog{file(aside(3), 1, 1), file(aside(4), 1, 1), file(aside(5), 1, 1)}, want: rotationPlan{remove: []string{aside(5)}}},
		"room for the next":       {found: []foundLog{file("containerd.log", 100, 0), file(aside(2), 1, 2), file(aside(1), 1, 1)}, want: rotationPlan{aside: next, remove: []string{aside(2)}}},
		"the file in use is kept": {found: []foundLog{file("containerd.log", 0, 1000)}},
		"files of others":         {found: []foundLog{file("containerd-old.log", 1, 1000), file("kubelet-20260102-150405.log", 1, 1000), file("containerd-20260102-150405.log.gz", 1, 1000)}},
		"names that are no times": {found: []foundLog{file("containerd-20261302-150405.log", 1, 1000), file("containerd-20260102-1504050.log", 1, 1000), file("containerd-20260102 150405.log", 1, 1000)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decideLog(desired.Log{Path: containerdLog, Rotates: test.rotates}, full, test.found, now)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(rotationPlan{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("to be done (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzNamesOfLogs(f *testing.F) {
	f.Add("kubelet.log", "kubelet-20060102-150405.log")
	f.Add("kubelet", "kubelet-20060102-150405")
	f.Add(".log", "-20060102-150405.log")
	f.Add("a-20060102-150405.log", "a-20060102-150405.log")
	f.Fuzz(func(t *testing.T, file, name string) {
		if isRotatedName(file, file) {
			t.Errorf("the file in use, %q, counts as put aside", file)
		}
		if len(name) != len(file)+len("-20060102-150405") && isRotatedName(file, name) {
			t.Errorf("%q counts as put aside of %q", name, file)
		}
		if at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local); !isRotatedName(file, rotatedName(file, at)) {
			t.Errorf("%q is not recognized", rotatedName(file, at))
		}
	})
}

// openContainerdLog returns a disk and a program that has a log open on it.
func openContainerdLog(t *testing.T) (hostapi.Disk, *os.File) {
	t.Helper()
	d := hostapi.Disk{Root: t.TempDir()}
	program, err := openLog(d, containerdLog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return d, program
}

func mustWriteLine(t *testing.T, program *os.File, line string) {
	t.Helper()
	if _, err := program.WriteString(line); err != nil {
		t.Fatal(err)
	}
}

// contents returns the files in the log's folder with their contents.
func contents(t *testing.T, d hostapi.Disk) map[string]string {
	t.Helper()
	names, err := d.List(hostapi.Parent(containerdLog))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, name := range names {
		b, err := d.Read(hostapi.Parent(containerdLog) + `\` + name)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = string(b)
	}
	return found
}

func expectContents(t *testing.T, d hostapi.Disk, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, contents(t, d)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFullLogIsRotatedWhileOpen(t *testing.T) {
	d, program := openContainerdLog(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	for n := range 5 {
		mustWriteLine(t, program, fmt.Sprintf("line %d\n", n))
		if err := Tidy(d, desired.Log{Path: containerdLog}, limits(14, time.Hour, 5), now.Add(time.Duration(n)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	expectContents(t, d, map[string]string{
		"containerd.log":                 "line 4\n",
		"containerd-20261121-120100.log": "line 0\nline 1\n",
		"containerd-20261121-120300.log": "line 2\nline 3\n",
	})
}

func TestLogThatCannotBeRotatedIsKept(t *testing.T) {
	for _, op := range []string{"create", "truncate"} {
		t.Run(op, func(t *testing.T) {
			d, program := openContainerdLog(t)
			mustWriteLine(t, program, "all of it")
			d.Before = func(o, name string) error {
				if o == op {
					return errors.New("no")
				}
				return nil
			}
			if err := Tidy(d, desired.Log{Path: containerdLog}, limits(1, time.Hour, 5), time.Now()); err == nil {
				t.Error("no error")
			}
			expectContents(t, d, map[string]string{"containerd.log": "all of it"})
		})
	}
}

func TestOldLogsAreRemovedEvenIfOneCannotBe(t *testing.T) {
	d, _ := openContainerdLog(t)
	old := time.Now().Add(-2 * time.Hour)
	for hour := range 3 {
		name := hostapi.Parent(containerdLog) + `\` + rotatedName("containerd.log", old.Add(-time.Duration(hour)*time.Hour))
		if _, err := d.WriteFile(name, "old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(d.Local(name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	failed := ""
	d.Before = func(op, name string) error {
		if op == "remove" && failed == "" {
			failed = name
			return errors.New("a process reads it")
		}
		return nil
	}
	if err := Tidy(d, desired.Log{Path: containerdLog}, limits(1, time.Hour, 5), time.Now()); err == nil || !strings.Contains(err.Error(), "a process reads it") {
		t.Errorf("the error is %v", err)
	}
	expectContents(t, d, map[string]string{"containerd.log": "", failed[len(hostapi.Parent(failed))+1:]: "old"})
}

func TestOnlyLogsAreEmptied(t *testing.T) {
	for _, path := range []string{`C:\k\kubelet.conf`, `C:\var\log\..\..\k\kubelet.conf`, `C:\var\log\`, `C:\var\log`, "x"} {
		d := hostapi.Disk{Root: t.TempDir(), Before: func(op, name string) error {
			t.Errorf("%s %s", op, name)
			return nil
		}}
		if err := Tidy(d, desired.Log{Path: path}, limits(1, time.Hour, 1), time.Now()); err == nil {
			t.Errorf("%q counts as a log", path)
		}
	}
}
