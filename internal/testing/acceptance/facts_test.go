package acceptance

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// busySystem is a System that returns neither feature states, as if DISM were busy, nor complete facts.
type busySystem struct{ hostapi.System }

func (s busySystem) Facts(ctx context.Context) (wicdapi.HostFacts, error) {
	f, err := s.System.Facts(ctx)
	return f, errors.Join(err, errors.New("Windows is busy"))
}

func (s busySystem) Feature(context.Context, string) (wicdapi.FeatureState, error) {
	return "", errors.New("DISM is busy")
}

func TestRunContinuesAfterFailedFacts(t *testing.T) {
	c := newComputer(t)
	m := c.machine()
	m.Host.System = busySystem{m.Host.System}
	r, err := Run(t.Context(), m, Options{Only: []string{"firewall", "hyper-v"}, Out: io.Discard})
	if err != nil || len(r.Lines) != 2 || len(r.Facts) != len(queries()) {
		t.Fatalf("%d lines and %d facts, %v", len(r.Lines), len(r.Facts), err)
	}
	for i, want := range []Verdict{Confirmed, Untried} {
		if r.Lines[i].Verdict != want {
			t.Errorf("%s is %s, want %s: %s", r.Lines[i].ID, r.Lines[i].Verdict, want, r.Lines[i].Seen)
		}
	}
	if first := r.Facts[0]; !strings.Contains(first.Error, "Windows is busy") || len(first.Document) == 0 || r.Machine.Build != 20348 {
		t.Errorf("the first fact is %+v, the machine %+v", first, r.Machine)
	}
}

func TestReportOfRefusedMachineHasFacts(t *testing.T) {
	c := newComputer(t)
	m := c.machine()
	m.Desktop = true
	var last Report
	r, err := Run(t.Context(), m, Options{Out: io.Discard, Report: func(r Report) error { last = r; return nil }})
	if !errors.Is(err, ErrRefused) || !strings.Contains(r.Refused, "desktop edition") || len(last.Facts) != len(queries()) || last.Finished.IsZero() {
		t.Errorf("Run() = %d facts, refused: %q, finished: %v, %v", len(last.Facts), r.Refused, last.Finished, err)
	}
	if !strings.Contains(r.Summary(), "Nothing was tested: ") || m.Host.Disk.Exists(Root) {
		t.Errorf("the summary is %s", r.Summary())
	}
}

func TestReportHidesNamesAndAddresses(t *testing.T) {
	h := newRedactor([]byte("salt"), "WIN-7Q2", "Alice", "corp.example.com", "Administrator", "abc")
	other := newRedactor([]byte("pepper"), "WIN-7Q2")
	for text, want := range map[string]string{
		"host WIN-7Q2.corp.example.com":              "host " + h.name("win-7q2") + "." + h.name("corp.example.com"),
		"user alice, Administrator":                  "user " + h.name("alice") + ", Administrator",
		"malice abc":                                 "malice abc",
		`C:\Users\Bob Smith\x and C:\Users\Public\y`: `C:\Users\` + h.name("Bob") + ` Smith\x and C:\Users\Public\y`,
		"00-15-5D-0A-0B-0C":                          "00-15-5D-mac-" + h.hash("00-15-5D-0A-0B-0C"),
		"S-1-5-21-1-2-3-500 and S-1-5-18":            "S-1-5-21-" + h.hash("S-1-5-21-1-2-3") + "-500 and S-1-5-18",
		"255.255.255.0 0.0.0.0 127.0.0.1":            "255.255.255.0 0.0.0.0 127.0.0.1",
		"10.244.3.7 169.254.169.254 ::1":             "10.244.3.7 169.254.169.254 ::1",
		"12:30:45 10.0.20348.2402":                   "12:30:45 10.0.20348.2402",
		"192.168.1.7/24":                             h.address("192.168.1.7") + "/24",
		"fe80::1ff:fe23:4567:890a%4":                 h.address("fe80::1ff:fe23:4567:890a") + "%4",
		`\\files01\share and \??\C:\x`:               `\\` + h.name("files01") + `\share and \??\C:\x`,
		"password: hunter2":                          "password: ***",
	} {
		if got := h.text(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if h.name("WIN-7Q2") == other.name("WIN-7Q2") {
		t.Error("two reports have the same hash of a name")
	}
	if a, b := h.address("192.168.1.7"), h.address("192.168.1.8"); a == b || a[:len(a)-8] != b[:len(b)-8] {
		t.Errorf("two addresses of a network are %s and %s", a, b)
	}
	document, text := h.answer("\ufeff" + `[{"DnsSuffix":"x.test","Version":"8.1.0.1","SerialNumber":"VM-1","Servers":["8.8.8.8"],"Big":64424509440,"n":null}]`)
	want := `[{"Big":64424509440,"DnsSuffix":"` + h.name("x.test") + `","SerialNumber":"` + h.name("VM-1") + `","Servers":["` + h.address("8.8.8.8") + `"],"Version":"8.1.0.1","n":null}]`
	if string(document) != want || text != "" {
		t.Errorf("the document is %s, %q, want %s", document, text, want)
	}
}

// FuzzHiddenText checks that no address remains in a text, and that texts do not grow without bounds.
func FuzzHiddenText(f *testing.F) {
	f.Add("ipconfig: 192.168.1.7, 2001:db8:1::7 and 00-15-5D-0A-0B-0C of WIN-7Q2")
	f.Fuzz(func(t *testing.T, text string) {
		h := newRedactor([]byte("salt"), "WIN-7Q2")
		_, hidden := h.answer("text " + text)
		for _, word := range strings.FieldsFunc(hidden, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"',;()[]{}", r) }) {
			if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" && !isKnownAddress(a) && a.Is4() {
				t.Errorf("%q still has %s: %q", text, a, hidden)
			}
		}
		if len(hidden) > 64*(len(text)+8) {
			t.Errorf("%d bytes became %d", len(text), len(hidden))
		}
	})
}

func TestSSHSettingsHideNames(t *testing.T) {
	h := newRedactor([]byte("salt"))
	got := sshSettings("# comment\r\nPort 22\r\nAllowGroups corp\\admins\r\n\r\nMatch Group administrators\r\n  AuthorizedKeysFile __PROGRAMDATA__/ssh/x\r\n", h)
	want := "Port 22\nAllowGroups " + h.name(`corp\admins`) + "\nMatch " + h.name("Group administrators") + "\nAuthorizedKeysFile __PROGRAMDATA__/ssh/x\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPendingFileRenamesAreCounted(t *testing.T) {
	for output, want := range map[string][]renameEntry{
		`["\\??\\C:\\Windows\\Temp\\a\\b.tmp","","\\??\\C:\\Windows\\Temp\\c.tmp",null,"\\??\\C:\\Program Files\\X\\new.dll","!\\??\\C:\\Program Files\\X\\old.dll"]`: {
			{`C:\Windows\Temp`, false, 2}, {`C:\Program Files\X`, true, 1},
		},
		`["*1\\??\\C:\\x"]`: {{`C:\x`, false, 1}},
		`[null]`:            {},
		`[]`:                {},
	} {
		got, err := parseRenames(output)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", output, err, diff)
		}
	}
	if _, err := parseRenames("no"); err == nil {
		t.Error("invalid JSON is accepted")
	}
}

// FuzzRenames checks that beginnings are short, and that there are no more entries than strings.
func FuzzRenames(f *testing.F) {
	f.Add(`["\\??\\C:\\a\\b\\c",""]`)
	f.Fuzz(func(t *testing.T, output string) {
		entries, err := parseRenames(output)
		if err == nil && slices.ContainsFunc(entries, func(e renameEntry) bool { return strings.Count(e.Beginning, `\`) > 2 || e.Count < 1 }) {
			t.Errorf("%q has %+v", output, entries)
		}
	})
}

// TestPendingFileDeletionsDoNotPreventJoin covers the deletions that programs leave pending at each start.
func TestPendingFileDeletionsDoNotPreventJoin(t *testing.T) {
	const files = "files in use wait for their replacement (PendingFileRenameOperations)"
	for document, want := range map[string][]string{
		`[{"beginning":"C:\\x","hasTarget":false,"count":3}]`: {"updates"},
		`[{"beginning":"C:\\x","hasTarget":true,"count":1}]`:  {files, "updates"},
		"": {files, "updates"}, // unknown
	} {
		s := session{facts: wicdapi.HostFacts{PendingReboot: []string{files, "updates"}}}
		r := Report{Facts: []Fact{{Name: "pending-renames", Document: json.RawMessage(document)}}}
		if diff := cmp.Diff(want, s.restartReasons(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", document, diff)
		}
	}
}

func TestArchiveContainsReportAndLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		m := c.machine()
		if _, err := m.Host.Disk.WriteFile(`C:\Windows\Logs\DISM\dism.log`, strings.Repeat("x\n", 2*lastLines)+"of WIN-ACC\n"); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), m, Options{Only: []string{"hns"}, Out: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"journal.jsonl": `{"host":"WIN-ACC"}`, "secret": "hunter2"} { // of a node
			if _, err := m.Host.Disk.WriteFile(desired.State+`\`+name, text); err != nil {
				t.Fatal(err)
			}
		}
		(&session{Machine: m, redact: newRedactor(nil, "WIN-ACC")}).addLogs(t.Context(), &r)
		content, err := r.Archive()
		if err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, f := range z.File {
			in, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			files[f.Name] = string(text)
		}
		log := files["windows/dism.log"]
		if n := strings.Count(log, "\n"); n >= lastLines || strings.Contains(log, "WIN-ACC") || !strings.Contains(log, "of name-") {
			t.Errorf("the log has %d lines, and ends with %q", n, log[max(0, len(log)-40):])
		}
		if journal := files["wicd/journal.jsonl"]; !strings.HasPrefix(journal, `{"host":"name-`) || strings.Contains(fmt.Sprint(files), "hunter2") {
			t.Errorf("WICD's journal is %q, of %q", journal, slices.Sorted(maps.Keys(files)))
		}
		for _, name := range []string{"report.json", "report.md", "events/System.txt"} {
			if _, found := files[name]; !found {
				t.Errorf("the archive has no %s", name)
			}
		}
		c.PowerOff()
	})
}
