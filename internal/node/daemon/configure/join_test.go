package configure_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestFreshHostBecomesNodeInOneJoin(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	result := daemontest.MustJoin(t, w, r)
	daemontest.ExpectJoined(t, w, r)
	if result.BootID != w.BootID() || len(result.Changed) == 0 || result.Rebooting != "" {
		t.Errorf("result %+v", result)
	}
	before := daemontest.PIDs(w, r)
	daemontest.MustSend(t, w, daemontest.NewPayload("1"))
	daemontest.ExpectNoChange(t, w, r)
	if after := daemontest.PIDs(w, r); !maps.Equal(before, after) {
		t.Errorf("services were restarted: %v, then %v", before, after)
	}
}

func TestNewVersionIsInstalledAndPreviousOneKept(t *testing.T) {
	w := daemontest.NewWindows(t, sim.WindowsOptions{})
	var digests []string
	for _, version := range []string{"1", "2b", "3cc"} {
		c := daemontest.NewPayload(version)
		digests = append(digests, desired.ShortDigest(c.Digest()))
		daemontest.MustSend(t, w, c)
		daemontest.MustJoin(t, w, daemontest.NewRequest(c))
		daemontest.ExpectJoined(t, w, daemontest.NewRequest(c))
	}
	got, _ := w.Disk().List(desired.Versions)
	want := slices.Sorted(slices.Values(digests[1:]))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if contents, _ := w.Disk().List(desired.Store); len(contents) != 9 {
		t.Errorf("the store has %d contents, want 9: two versions share one", len(contents))
	}
}

// TestInterruptedJoinConverges cuts the power at each change that a join makes, on a fresh host, at an upgrade that changes every kind of
// thing, and where another cluster has left its files.
func TestInterruptedJoinConverges(t *testing.T) {
	t.Parallel()
	old, fresh := daemontest.NewPayload("1"), daemontest.NewPayload("2b")
	for name, prepare := range map[string]func(w *sim.Windows){
		"fresh": func(*sim.Windows) {},
		"upgrade": func(w *sim.Windows) {
			daemontest.MustSend(t, w, old)
			r := daemontest.NewRequest(old)
			r.Desired.Files[0].Content = "{\"old\":true}"
			r.Desired.Files = append(r.Desired.Files, desired.File{Path: daemontest.PlainFile, Content: "old"})
			daemontest.MustJoin(t, w, r)
		},
		"other cluster": func(w *sim.Windows) {
			daemontest.MustSend(t, w, old)
			r := daemontest.NewRequest(old)
			r.Cluster, r.Bootstrap.Server = "another", "https://another.example"
			daemontest.MustJoin(t, w, r)
			daemontest.MustWrite(t, w.Disk(), desired.KubeletKubeconfig, "https://another.example")
		},
		"same version, other configuration": func(w *sim.Windows) {
			daemontest.MustSend(t, w, fresh)
			r := daemontest.NewRequest(fresh)
			r.Desired.Files[0].Content = "{\"old\":true}"
			daemontest.MustJoin(t, w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := daemontest.NewRequest(fresh)
			for at := 0; ; at++ {
				w := daemontest.NewWindows(t, sim.WindowsOptions{})
				prepare(w)
				daemontest.MustSend(t, w, fresh)
				w.CutPowerAfter(at)
				_, err := daemontest.NewWire(w).Join(r)
				w.PowerCut()
				w.PowerOn()
				daemontest.MustJoin(t, w, r)
				daemontest.ExpectJoined(t, w, r)
				expectNoLeftovers(t, w)
				daemontest.ExpectNoChange(t, w, r)
				w.PowerOff()
				if err == nil {
					t.Logf("this join makes %d changes", at)
					return
				}
			}
		})
	}
}

func TestMissingContentStopsJoin(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
	r := daemontest.NewRequest(c)
	c.Contents = c.Contents[:len(c.Contents)-1]
	daemontest.MustSend(t, w, c)
	_, err := daemontest.NewWire(w).Join(r)
	if e := daemontest.ExpectCode(t, err, wicdapi.CodeContentMissing); !strings.Contains(e.Message, `cni\host-local.exe`) {
		t.Errorf("%q does not name the file", e.Message)
	}
	if w.Disk().Exists(desired.VersionFolder(r.Desired.Digest)) {
		t.Error("something was linked")
	}
}

func TestInvalidJoinRequestsAreRejected(t *testing.T) {
	for name, invalidate := range map[string]func(r *wicdapi.JoinRequest){
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
			w, r := daemontest.NewHost(t, sim.WindowsOptions{})
			invalidate(&r)
			_, err := daemontest.NewWire(w).Join(r)
			daemontest.ExpectCode(t, err, wicdapi.CodeRequestInvalid)
		})
	}
}

func TestTokenIsStoredInOneFile(t *testing.T) {
	w, _ := daemontest.NewNode(t, sim.WindowsOptions{})
	var holders []string
	err := w.Disk().Walk(`C:\`, func(name string, info fs.FileInfo) error {
		if !info.Mode().IsRegular() {
			return nil
		}
		b, err := w.Disk().Read(name)
		if strings.Contains(string(b), daemontest.Token) {
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

func expectNoLeftovers(t *testing.T, w *sim.Windows) {
	t.Helper()
	err := w.Disk().Walk(`C:\k`, func(name string, _ fs.FileInfo) error {
		if strings.HasSuffix(name, ".part") || name == daemontest.PlainFile {
			t.Errorf("%s exists", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMissingNodeRestartsOnlyKubelet(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{})
	before := daemontest.PIDs(w, r)
	r.Register = true
	daemontest.MustJoin(t, w, r)
	for name, pid := range daemontest.PIDs(w, r) {
		if again := pid != before[name]; again != (name == "kubelet") {
			t.Errorf("%s was started again: %v", name, again)
		}
	}
	r.Register = false
	daemontest.ExpectNoChange(t, w, r)
}

// TestUpgradeWorksWithoutFileListOfOldVersion destroys the file that lists a version's contents.
func TestUpgradeWorksWithoutFileListOfOldVersion(t *testing.T) {
	w := daemontest.NewWindows(t, sim.WindowsOptions{})
	for _, version := range []string{"1", "2b", "3cc"} {
		c := daemontest.NewPayload(version)
		daemontest.MustSend(t, w, c)
		daemontest.MustJoin(t, w, daemontest.NewRequest(c))
		daemontest.MustWrite(t, w.Disk(), desired.VersionFolder(c.Digest())+`\files.json`, "\x00\x00")
	}
}
