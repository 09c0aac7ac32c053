package acceptance

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// TestRevisionVerdicts takes the limits from the operator's own tables.
func TestRevisionVerdicts(t *testing.T) {
	type row struct {
		build    windowsbuild.Build
		revision int
		want     Verdict
	}
	rows := []row{{19041, 1, Untried}, {windowsbuild.Server2022, 587, Refuted}, {windowsbuild.Server2022, 2402, Confirmed}} // 587: the evaluation copy
	for _, u := range windowsbuild.Updates() {
		if !u.Optional {
			rows = append(rows, row{u.Build, u.Revision - 1, Refuted})
		}
	}
	for _, f := range windowsbuild.Faults() {
		rows = append(rows, row{f.Build, f.Before - 1, Refuted}, row{f.Build, f.Before, Confirmed})
	}
	for _, test := range rows {
		var a Answer
		a.setVerdict(checkRevision(test.build, test.revision))
		if a.Verdict != test.want {
			t.Errorf("%d.%d: %s, %s; want %s", test.build, test.revision, a.Verdict, a.Seen, test.want)
		}
	}
}

// TestProgramBlockedByAntivirusIsReported uses scripts in place of wicd-setup.
func TestProgramBlockedByAntivirusIsReported(t *testing.T) {
	const unpacked = "wicd-00000000000000aa.exe"
	for name, test := range map[string]struct {
		script   string
		want     Verdict
		wantSeen string
	}{
		"nothing stops it":           {"echo > " + unpacked, Confirmed, "with 2 programs of the operator"},
		"what it starts is blocked":  {`echo '{"error":{"code":"Blocked"}}'; exit 1`, Refuted, "Blocked"},
		"what it unpacks is removed": {"echo > " + unpacked + "; (sleep 0.2; rm " + unpacked + ") > /dev/null 2>&1 &", Refuted, unpacked + " is gone"},
		"it is removed itself":       {"(sleep 0.2; rm " + setupName + ") > /dev/null 2>&1 &", Refuted, setupName + " is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t)
			m := c.machine()
			m.Wine, m.Home = true, `C:\Users\Administrator` // with Wine, it waits for a second only
			mustMakeFolder(t, &m, m.Home)
			folder := t.TempDir()
			m.Program = filepath.Join(folder, "wmco-acceptance.exe")
			setup := filepath.Join(folder, "join", filepath.FromSlash(setupProgram))
			if err := os.MkdirAll(filepath.Dir(setup), 0o700); err != nil {
				t.Fatal(err)
			}
			mustWrite(t, setup, "#!/bin/sh\n"+test.script+"\n")
			r, err := Run(t.Context(), m, Options{Only: []string{"antivirus"}, Out: io.Discard, OnWine: true})
			if err != nil || len(r.Lines) != 1 || r.Lines[0].Verdict != test.want || !strings.Contains(r.Lines[0].Seen, test.wantSeen) {
				t.Errorf("got %+v, %v; want %s, %q", r.Lines, err, test.want, test.wantSeen)
			}
			if left, err := m.Host.Disk.List(m.Home); err != nil || len(left) > 0 {
				t.Errorf("programs left behind: %q, %v", left, err)
			}
		})
	}
}

func TestUnusualAdaptersAreReported(t *testing.T) {
	usual := adapterState{Alias: "Ethernet", HardwareInterface: true, DHCP: 1, MTU: 1500, Addresses: 1}
	if seen, err := checkAdapter(usual); err != nil || !strings.Contains(seen, "MTU 1500") {
		t.Errorf("a usual adapter: %q, %v", seen, err)
	}
	for wantErr, edit := range map[string]func(*adapterState){
		"static":         func(a *adapterState) { a.DHCP = 0 },
		"no hardware":    func(a *adapterState) { a.HardwareInterface = false },
		"virtual switch": func(a *adapterState) { a.Alias = "vEthernet (Ethernet) 2" },
		"several IPv4":   func(a *adapterState) { a.Addresses = 2 },
	} {
		a := usual
		edit(&a)
		if _, err := checkAdapter(a); err == nil || errors.Is(err, errUntried) || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%+v: %v, want %q", a, err, wantErr)
		}
	}
}

// TestOnlyProductObjectsRefuteLeave ignores networks, certificates and exclusions of Windows and other programs, which change at any time.
func TestOnlyProductObjectsRefuteLeave(t *testing.T) {
	before := remnants{{"network nat", false}, {"service kubelet", true}}
	now := remnants{
		{"network nat", false}, {"service kubelet", true}, {"network Default Switch", isProductNetwork("Default Switch")}, {"root certificate 0a", false},
		{"network flannel.4096", isProductNetwork("flannel.4096")}, {"network B", isProductNetwork("BaseOVNKubernetesHybridOverlayNetwork")},
		{`Defender exclusion C:\K\containerd`, isProductPath(`C:\K\containerd`)}, {`Defender exclusion C:\kept`, isProductPath(`C:\kept`)},
	}
	products, others := now.since(before)
	if diff := cmp.Diff([]string{"network flannel.4096", "network B", `Defender exclusion C:\K\containerd`}, products); diff != "" {
		t.Errorf("product objects (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"network Default Switch", "root certificate 0a", `Defender exclusion C:\kept`}, others); diff != "" {
		t.Errorf("other objects (-want +got):\n%s", diff)
	}
}
