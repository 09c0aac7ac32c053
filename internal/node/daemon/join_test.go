package daemon_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestAFreshHostBecomesANode(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	result := mustJoin(t, w, r)
	expectJoined(t, w, r)
	if result.BootID != w.BootID() || len(result.Changed) == 0 || result.Rebooting != "" {
		t.Errorf("result %+v", result)
	}
}

func TestASecondJoinChangesNothing(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustJoin(t, w, r)
	pid := w.Service("kubelet").PID
	mustSend(t, w, c)
	if again := mustJoin(t, w, r); again.Changed != nil {
		t.Errorf("changed: %q", again.Changed)
	}
	if w.Service("kubelet").PID != pid {
		t.Error("the kubelet was started again")
	}
}

func TestANewVersionReplacesTheOldAndTwoAreKept(t *testing.T) {
	w := newWindows(t, sim.WindowsOptions{})
	var digests []string
	for _, version := range []string{"1", "2b", "3cc"} {
		c := newCargo(version)
		digests = append(digests, desired.ShortDigest(c.digest()))
		mustSend(t, w, c)
		mustJoin(t, w, newRequest(c))
		expectJoined(t, w, newRequest(c))
	}
	got, _ := w.Disk().List(desired.Versions)
	want := slices.Sorted(slices.Values(digests[1:]))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if contents, _ := w.Disk().List(desired.Store); len(contents) != 9 {
		t.Errorf("the store holds %d contents, want those of two versions, of which one is the same: 9", len(contents))
	}
}

// TestAJoinThatIsCutConverges cuts the power at each change that a join makes, on a fresh host, at an upgrade that changes every kind of thing, and
// where another cluster has left its files.
func TestAJoinThatIsCutConverges(t *testing.T) {
	t.Parallel()
	old, fresh := newCargo("1"), newCargo("2b")
	for name, prepare := range map[string]func(w *sim.Windows){
		"fresh": func(*sim.Windows) {},
		"upgrade": func(w *sim.Windows) {
			mustSend(t, w, old)
			r := newRequest(old)
			r.Desired.Files[0].Content = "{\"old\":true}"
			r.Desired.Files = append(r.Desired.Files, desired.File{Path: plainFile, Content: "old"})
			mustJoin(t, w, r)
		},
		"other cluster": func(w *sim.Windows) {
			mustSend(t, w, old)
			r := newRequest(old)
			r.Cluster, r.Bootstrap.Server = "another", "https://another.example"
			mustJoin(t, w, r)
			mustWrite(t, w.Disk(), desired.KubeletKubeconfig, "https://another.example")
		},
		"same version, other configuration": func(w *sim.Windows) {
			mustSend(t, w, fresh)
			r := newRequest(fresh)
			r.Desired.Files[0].Content = "{\"old\":true}"
			mustJoin(t, w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRequest(fresh)
			for at := 0; ; at++ {
				w := newWindows(t, sim.WindowsOptions{})
				prepare(w)
				mustSend(t, w, fresh)
				w.CutPowerAfter(at)
				_, err := newWire(w).join(r)
				w.PowerCut()
				w.PowerOn()
				mustJoin(t, w, r)
				expectJoined(t, w, r)
				expectNoLeftovers(t, w)
				if again := mustJoin(t, w, r); again.Changed != nil {
					t.Errorf("cut at %d: the third join changed %q", at, again.Changed)
				}
				w.PowerOff()
				if err == nil {
					t.Logf("this join makes %d changes", at)
					return
				}
			}
		})
	}
}

func TestContentThatIsMissingStopsTheJoin(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	r := newRequest(c)
	last := len(c.contents) - 1
	c.contents = c.contents[:last]
	mustSend(t, w, c)
	_, err := newWire(w).join(r)
	if e := expectCode(t, err, wicdapi.CodeContentMissing); !strings.Contains(e.Message, `cni\host-local.exe`) {
		t.Errorf("%q does not name the file", e.Message)
	}
	if w.Disk().Exists(desired.VersionFolder(r.Desired.Digest)) {
		t.Error("something was linked")
	}
}

func TestBadRequestsOfJoinAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(r *wicdapi.JoinRequest){
		"no node":      func(r *wicdapi.JoinRequest) { r.Node = "" },
		"host name":    func(r *wicdapi.JoinRequest) { r.Hostname = "win 1" },
		"SSH key":      func(r *wicdapi.JoinRequest) { r.Desired.AuthorizedKeys = []string{"a key"} },
		"SSH keys":     func(r *wicdapi.JoinRequest) { r.Desired.AuthorizedKeys = []string{keyLine("a") + "\n" + keyLine("b")} },
		"digest":       func(r *wicdapi.JoinRequest) { r.Desired.Digest = "short" },
		"payload path": func(r *wicdapi.JoinRequest) { r.Desired.Payload[0].Path = `..\..\Windows\x.exe` },
		"payload root": func(r *wicdapi.JoinRequest) { r.Desired.Payload[0].Path = `\Windows\x.exe` },
		"payload hash": func(r *wicdapi.JoinRequest) { r.Desired.Payload[0].SHA256 = `..\x` },
		"file path":    func(r *wicdapi.JoinRequest) { r.Desired.Files[0].Path = `C:\k\..\Windows\x` },
		"folder":       func(r *wicdapi.JoinRequest) { r.Desired.Directories[0] = `D:\x` },
		"CNI path":     func(r *wicdapi.JoinRequest) { r.Desired.CNI.Path = `\\server\share` },
		"no token":     func(r *wicdapi.JoinRequest) { r.Bootstrap.Token = "" },
		"a circle":     func(r *wicdapi.JoinRequest) { r.Desired.Services[0].DependsOn = []string{"kubelet"} },
		"no such one":  func(r *wicdapi.JoinRequest) { r.Desired.Services[0].DependsOn = []string{"network"} },
		"probe":        func(r *wicdapi.JoinRequest) { r.Desired.Services[0].Ready = "http://10.0.0.1/" },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			spoil(&r)
			_, err := newWire(w).join(r)
			expectCode(t, err, wicdapi.CodeRequestInvalid)
		})
	}
}

func TestTheTokenIsInOneFileOnly(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	mustJoin(t, w, newRequest(c))
	var holders []string
	err := w.Disk().Walk(`C:\`, func(name string, info fs.FileInfo) error {
		if !info.Mode().IsRegular() {
			return nil
		}
		b, err := w.Disk().Read(name)
		if strings.Contains(string(b), token) {
			holders = append(holders, name)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s: mode %v", name, info.Mode())
			}
		}
		return err
	})
	if want := []string{`C:\\k\bootstrap-kubeconfig`}; err != nil || !slices.Equal(holders, want) {
		t.Errorf("the token is in %q, %v; want %q", holders, err, want)
	}
}

func TestStatusIncludesJournal(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	mustJoin(t, w, newRequest(c))
	var status wicdapi.Status
	if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandStatus, nil, &status, nil); err != nil {
		t.Fatal(err)
	}
	if len(status.Services) != 3 || !status.Services[0].Ours || status.Joined == nil {
		t.Errorf("status %+v", status)
	}
	last := status.Journal[len(status.Journal)-1]
	if want := "joined as node win-1, version " + newRequest(c).Desired.Version; last.Change != want || last.Step != "completing" {
		t.Errorf("the journal ends with %+v, want %q", last, want)
	}
}
