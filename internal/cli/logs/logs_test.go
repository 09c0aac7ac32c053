package logs

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// server serves a folder as the kubelet of win-1 does.
func server(t *testing.T) (client *nodefiles.Client, folder string) {
	t.Helper()
	folder = t.TempDir()
	s := httptest.NewServer(http.StripPrefix("/api/v1/nodes/win-1/proxy/logs/", http.FileServer(http.Dir(folder))))
	t.Cleanup(s.Close)
	client, err := nodefiles.New(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client, folder
}

func mustWrite(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newStream returns a log whose lines are sent to a channel.
func newStream(client *nodefiles.Client, file string, tail int) (*stream, chan string) {
	lines := make(chan string, 100_000)
	return &stream{client: client, node: "win-1", file: file, tail: tail, timeout: time.Minute,
		show: func(line string) error { lines <- line; return nil }}, lines
}

func drained(lines chan string) (all []string) {
	for len(lines) > 0 {
		all = append(all, <-lines)
	}
	return all
}

func TestTails(t *testing.T) {
	client, folder := server(t)
	var long strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&long, "line %d of a log that is longer than what is read at first\r\n", i)
	}
	mustWrite(t, folder, "long.log", long.String())
	mustWrite(t, folder, "short.log", "one\ntwo\nhalf")
	mustWrite(t, folder, "empty.log", "")
	for _, test := range []struct {
		file         string
		tail, count  int
		first, after string
	}{
		{"long.log", 3, 3, "line 19997 ", ""},
		{"long.log", 5000, 5000, "line 15000 ", ""},
		{"long.log", -1, 20_000, "line 0 ", ""},
		{"long.log", 0, 0, "", ""},
		{"short.log", 50, 2, "one", "half"},
		{"short.log", 1, 1, "two", "half"},
		{"short.log", -1, 2, "one", "half"},
		{"empty.log", 50, 0, "", ""},
	} {
		s, lines := newStream(client, test.file, test.tail)
		if err := s.print(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := drained(lines)
		if len(got) != test.count || test.count > 0 && !strings.HasPrefix(got[0], test.first) || s.half != test.after {
			t.Errorf("the last %d lines of %s are %d, the first %.20q, then %q", test.tail, test.file, len(got), slices.Concat(got, []string{""})[0], s.half)
		}
	}
}

func TestLinesSince(t *testing.T) {
	client, folder := server(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	at := func(minutes int) string {
		return now.Add(-time.Duration(minutes) * time.Minute).Format(time.RFC3339Nano)
	}
	mustWrite(t, folder, "containerd.log", `time="`+at(30)+`" level=info msg=old`+"\n\tstack of old\n"+`time="`+at(5)+`" level=info msg=new`+"\n\tstack of new\n")
	mustWrite(t, folder, "wicd.log", `{"time":"`+at(30)+`","msg":"old"}`+"\n"+`{"time":"`+at(5)+`","msg":"new"}`+"\n")
	mustWrite(t, folder, "System.log", at(30)+" Error System[1] x 1: old\n"+at(5)+" Error System[2] x 1: new\n")
	klog := func(minutes int, zone time.Duration) string {
		return now.Add(zone-time.Duration(minutes)*time.Minute).Format("I0102 15:04:05.000000") + "    1234 x.go:1] "
	}
	mustWrite(t, folder, "kubelet.log", klog(30, 2*time.Hour)+"old\n"+klog(5, 2*time.Hour)+"new\n"+klog(0, 2*time.Hour)+"newest\n")
	for file, want := range map[string]int{"containerd.log": 2, "wicd.log": 1, "System.log": 1, "kubelet.log": 2} {
		s, lines := newStream(client, file, -1)
		s.since = now.Add(-10 * time.Minute)
		if err := s.print(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := drained(lines); len(got) != want || strings.Contains(strings.Join(got, ""), "old") {
			t.Errorf("%s has %q since ten minutes ago", file, got)
		}
	}
}

func TestFollowContinuesAfterTruncation(t *testing.T) {
	client, folder := server(t)
	mustWrite(t, folder, "kubelet.log", "one\nha")
	s, lines := newStream(client, "kubelet.log", 50)
	if err := s.print(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		if err := s.more(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := drained(lines); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("one")
	mustWrite(t, folder, "kubelet.log", "one\nhalf\ntwo\n")
	expect("half", "two")
	expect()
	mustWrite(t, folder, "kubelet.log", "new\n")
	expect()
	expect("new")
	if err := os.Remove(filepath.Join(folder, "kubelet.log")); err != nil {
		t.Fatal(err)
	}
	expect()
}

func TestLogNamesMapToFiles(t *testing.T) {
	for name, want := range map[string]string{
		"kubelet": "kubelet/kubelet.log", "wicd": "wicd/wicd.log", "SYSTEM": "eventlog/System.log", "hns": "eventlog/Host-Network-Service-Admin.log",
		"hybrid-overlay-node": "hybrid-overlay/hybrid-overlay.log", "eventlog/System.log": "eventlog/System.log", "cloud-node-manager": "cloud-node-manager/cloud-node-manager.log",
		"../k": "", "/x": "", `a\b`: "", "": "", "a//b": "", "a/../../b": "",
	} {
		got, err := FileOf(name)
		if want == "" {
			if session.CodeOf(err) != session.CodeUsage {
				t.Errorf("%q is %q, %v", name, got, err)
			}
		} else if got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestLinesAreSanitized(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	for line, want := range map[string]string{
		long:                 long,
		"caf\xe9":            "caf\uFFFD", // as written in the host's Windows code page
		"\x1b[2Ja\tb\u202ec": "?[2Ja b?c",
	} {
		if got := printable(line); got != want {
			t.Errorf("%.40q is shown as %.40q (%d bytes), want %.40q (%d bytes)", line, got, len(got), want, len(want))
		}
	}
}

func TestLinesWithoutEndAreBounded(t *testing.T) {
	client, folder := server(t)
	mustWrite(t, folder, "endless.log", strings.Repeat("x", 5*maxLine))
	s, lines := newStream(client, "endless.log", -1)
	if err := s.print(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := len(s.half)
	for _, line := range drained(lines) {
		if len(line) > maxLine+firstRead {
			t.Errorf("%d bytes of a line were held", len(line))
		}
		got += len(line)
	}
	if got != 5*maxLine || len(s.half) > maxLine {
		t.Errorf("%d of %d bytes were read, %d of them buffered", got, 5*maxLine, len(s.half))
	}
}

func FuzzTimes(f *testing.F) {
	f.Add("I1123 16:45:20.123456    1234 x.go:1] x")
	f.Add(`time="2026-11-23T16:45:20Z" level=info`)
	f.Add("2026-11-23T16:45:20.123Z Error System[1] x 1: x")
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, line string) {
		if at, ok := (stamps{now: now}).klog(line); ok && at.After(now.Add(48*time.Hour)) {
			t.Errorf("%q is of %s", line, at)
		}
		_, _ = (stamps{now: now}).of(line)
		if strings.ContainsAny(printable(line), "\x1b\r\n\x07") {
			t.Errorf("%q controls a terminal", line)
		}
	})
}
