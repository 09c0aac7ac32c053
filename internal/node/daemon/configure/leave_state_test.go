package configure_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	shim       = `C:\k\containerd\containerd-shim-runhcs-v1.exe`
	layer      = desired.ContainerdRoot + `\io.containerd.snapshotter.v1.windows\snapshots\7`
	podNetwork = "0f1a2b3c-0000-4000-8000-000000000001"
)

// state is the state of a host that a join could change.
type state struct {
	Services    map[string]desired.Service
	Environment map[string]string
	Trusted     []string
	Remnants    []string
	Rules       []sim.Rule
	Exclusions  desired.Exclusions
	Files       map[string]string
}

// stateOf returns a host's state without journal and logs.
func stateOf(t *testing.T, w *sim.Windows) state {
	t.Helper()
	s := state{Services: map[string]desired.Service{}, Environment: w.Environment(), Remnants: w.Remnants(), Rules: w.Rules(), Exclusions: w.Defender().Set, Files: map[string]string{}}
	services, err := w.Host().Services.List(t.Context(), []string{"backup"})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range services {
		s.Services[got.Name] = got.Service
	}
	if s.Trusted, err = w.Host().Certificates.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	disk := w.Disk()
	walk := func(folder string) {
		err = errors.Join(err, disk.Walk(folder, func(name string, info fs.FileInfo) error {
			if name == daemontest.JournalFile || strings.HasPrefix(name, desired.Logs+`\`) {
				return nil
			}
			content := []byte("a folder")
			if info.Mode().IsRegular() {
				content, err = disk.Read(name)
			}
			s.Files[name] = string(content)
			return err
		}))
	}
	names, _ := disk.List(`C:`)
	for _, name := range names {
		walk(`C:\` + name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func expectState(t *testing.T, w *sim.Windows, want state) {
	t.Helper()
	if diff := cmp.Diff(want, stateOf(t, w)); diff != "" {
		t.Errorf("the state of the host (-want +got):\n%s", diff)
	}
}

// newShared returns a host that has other uses, too.
func newShared(t *testing.T) *sim.Windows {
	t.Helper()
	w := daemontest.NewWindows(t, sim.WindowsOptions{})
	for _, name := range []string{
		`C:\data\important.txt`, `C:\ProgramData\other\file`, `C:\ProgramData\containerd\other\file`, `C:\var\lib\other\file`, `C:\usr\bin\tool.exe`,
		`C:\k\state\journal.jsonl`, `C:\var\log\other.log`, `C:\ProgramData\ssh\administrators_authorized_keys`,
	} {
		daemontest.MustWrite(t, w.Disk(), name, "")
	}
	daemontest.MustDeclare(t, w, desired.Service{Name: "backup", Description: "Backs up", Command: `C:\usr\bin\tool.exe`})
	w.SetVariable("OTHER", "somebody's")
	w.AddRule(sim.Rule{FirewallRule: rules()[0], Group: "somebody's"})
	w.EditDefender(func(d *sim.Defender) { d.Set = foreignExclusions() })
	return w
}

// addNodeFiles creates what containerd, the kubelet and WICD's service create on a working node.
func addNodeFiles(t *testing.T, w *sim.Windows) {
	t.Helper()
	for name, content := range map[string]string{
		shim: "a shim",
		desired.ContainerdRoot + `\io.containerd.content.v1.content\blobs\x`:      "x",
		desired.ContainerdState + `\x`:                                            "x",
		desired.KubeletData + `\pods\1\volumes\x`:                                 "x",
		desired.CNIData + `\networks\n\10.132.0.2`:                                "x",
		desired.CNIData + `\results\n-pause-eth0`:                                 `{"kind":"cniCacheV1","netns":"` + podNetwork + `"}`,
		desired.CNIData + `\results\damaged`:                                      `{"kind":`,
		`C:\k\cni\config\cni.conf`:                                                "{}",
		desired.KubeletKubeconfig:                                                 "x",
		daemontest.WICDFile:                                                       "x",
		`C:\usr\libexec\kubernetes\kubelet-plugins\volume\exec\x\` + "plugin.exe": "x",
		`C:\var\log\kubelet\kubelet.log`:                                          "x",
	} {
		daemontest.MustWrite(t, w.Disk(), name, content)
	}
	if err := w.Disk().RemoveAll(`C:\usr\libexec\kubernetes\kubelet-plugins\volume\exec\x`); err != nil {
		t.Fatal(err)
	}
	// A pod's volume is a link to its data.
	if err := os.Symlink(w.Disk().Local(`C:\data`), w.Disk().Local(desired.KubeletData+`\pods\1\volumes\link`)); err != nil {
		t.Fatal(err)
	}
	if err := w.AddLayer(layer); err != nil {
		t.Fatal(err)
	}
	w.AddContainer("pause", shim)
	w.AddNetwork(podNetwork)
}

// leavingRequest declares something of every kind.
func leavingRequest(t *testing.T, c *daemontest.Payload) wicdapi.JoinRequest {
	t.Helper()
	r := daemontest.NewRequest(c)
	r.Desired.Environment = map[string]string{"NO_PROXY": ".svc"}
	r.Desired.WatchedEnvironment = []string{"HTTP_PROXY", "NO_PROXY"}
	r.Desired.Certificates = daemontest.OtherAuthority(t)
	r.Desired.Firewall = rules()
	r.Desired.Exclusions = exclusionsOf(r.Desired.Digest)
	r.Desired.SecretsVersion = "1"
	r.Secrets = desired.Secrets{Version: "1", Files: []desired.File{{Path: daemontest.CredentialFile, Content: "secret"}, {Path: webConfig, Content: "x"}}}
	return r
}

func mustJoinAndWork(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest, c *daemontest.Payload) {
	t.Helper()
	daemontest.MustSend(t, w, c)
	daemontest.MustJoin(t, w, r)
	addNodeFiles(t, w)
}
