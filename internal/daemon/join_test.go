package daemon_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/sim"
)

const token = "the-bootstrap-token"

// newRequest asks for a node with the programs of the cargo.
func newRequest(c *cargo) agent.JoinRequest {
	folder := desired.VersionFolder(c.digest())
	return agent.JoinRequest{
		Cluster: "11111111-2222-3333-4444-555555555555", Namespace: "operators", Local: desired.Local{Node: "win-1", NodeIP: "192.0.2.10"}, MayReboot: true,
		// With this CA no client can be made, so that nothing tries to connect.
		Bootstrap: agent.Bootstrap{Server: "https://api.example:6443", CA: "none", Token: token},
		Desired: desired.Node{
			Version: "1.0.0-" + c.digest()[:7], Digest: c.digest(), Payload: c.files,
			Features:    []string{"Containers"},
			Directories: []string{desired.Logs + `\kubelet`, desired.KubeletCertificates},
			Files: []desired.File{
				{Path: `C:\k\kubelet.conf`, Content: "{}"},
				{Path: `C:\k\containerd\containerd_conf.toml`, Content: "version = 3"},
			},
			Services: []desired.Service{
				containerd(folder), kubelet(folder),
				ours(api.WICDService, folder+`\windows-instance-config-daemon.exe run --windows-service`),
			},
			SigningKey: desired.PublicKey(signingKey(1)),
			CNI:        &desired.CNI{Path: `C:\k\cni\config\cni.conf`, Template: `{"name":"n","type":"t","cidr":"{{.PodCIDR}}"}`},
		},
	}
}

func containerd(folder string) desired.Service {
	s := ours("containerd", folder+`\containerd\containerd.exe --config C:\k\containerd\containerd_conf.toml`)
	s.Ready = "npipe://./pipe/containerd-containerd"
	s.Log.Path = `C:\var\log\containerd\containerd.log`
	return s
}

func kubelet(folder string) desired.Service {
	s := ours("kubelet", folder+`\kube-log-runner.exe -log-file=C:\var\log\kubelet\kubelet.log `+folder+
		`\kubelet.exe --config=C:\k\kubelet.conf --bootstrap-kubeconfig=`+desired.BootstrapKubeconfig+
		` --kubeconfig=`+desired.KubeletKubeconfig+` --hostname-override=${NODE_NAME} --node-ip=${NODE_IP}`, "containerd")
	s.Ready = "http://127.0.0.1:10248/healthz"
	s.Log.Path = `C:\var\log\kubelet\kubelet.log`
	return s
}

// known is a declaration as Windows knows it: without what is WICD's own matter.
func known(s desired.Service) desired.Service {
	s.Ready, s.Needs, s.Reads, s.Log = "", nil, nil, desired.Log{}
	return s
}

func ours(name, command string, dependsOn ...string) desired.Service {
	return desired.Service{Name: name, Description: desired.ServiceDescription(name), Command: command, DependsOn: dependsOn}
}

// expectJoined checks that the computer is what the request asked for.
func expectJoined(t *testing.T, w *sim.Windows, r agent.JoinRequest) {
	t.Helper()
	disk := w.Disk()
	for _, f := range r.Desired.Payload {
		for _, name := range []string{desired.VersionFolder(r.Desired.Digest) + `\` + f.Path, `C:\k\` + f.Path} {
			one, err := disk.Stat(name)
			two, storeErr := disk.Stat(desired.Store + `\` + f.SHA256)
			if err := errors.Join(err, storeErr); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if !os.SameFile(one, two) {
				t.Errorf("%s is not content %.12s", name, f.SHA256)
			}
		}
	}
	for _, f := range r.Desired.Files {
		expectContent(t, disk, f.Path, f.Content)
	}
	expectServices(t, w, r)
	var got agent.Facts
	if err := agent.Call(t.Context(), newWire(w), agent.CommandFacts, nil, &got, nil); err != nil {
		t.Fatal(err)
	}
	want := &agent.Joined{Cluster: r.Cluster, Node: r.Node, Digest: r.Desired.Digest, Version: r.Desired.Version, HasCertificate: disk.Exists(WICDFile)}
	if diff := cmp.Diff(want, got.Joined); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
}

// expectServices checks that the services are as declared, and run.
func expectServices(t *testing.T, w *sim.Windows, r agent.JoinRequest) {
	t.Helper()
	for _, s := range r.Desired.Services {
		s.Command = strings.NewReplacer("${NODE_NAME}", r.Node, "${NODE_IP}", r.NodeIP).Replace(s.Command)
		is := w.Service(s.Name)
		if diff := cmp.Diff(known(s), is.Service); diff != "" {
			t.Errorf("service %s (-want +got):\n%s", s.Name, diff)
		}
		if is.State != host.Running {
			t.Errorf("service %s is %s", s.Name, is.State)
		}
	}
}

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

func TestOnlyWhoReadsAChangedFileIsStartedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *agent.JoinRequest)
		want   []string
	}{
		"nothing":             {func(*agent.JoinRequest) {}, nil},
		"kubelet.conf":        {func(r *agent.JoinRequest) { r.Desired.Files[0].Content = "{ }" }, []string{"kubelet"}},
		"containerd's":        {func(r *agent.JoinRequest) { r.Desired.Files[1].Content = "" }, []string{"containerd", "kubelet"}},
		"token while waiting": {func(r *agent.JoinRequest) { r.Bootstrap.Token = "newer" }, []string{"kubelet", api.WICDService}},
		"address":             {func(r *agent.JoinRequest) { r.NodeIP = "192.0.2.11" }, []string{"kubelet"}},
		"version alone":       {func(r *agent.JoinRequest) { r.Desired.Version = "2.0.0" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			mustJoin(t, w, r)
			before := map[string]uint32{}
			for _, s := range r.Desired.Services {
				before[s.Name] = w.Service(s.Name).PID
			}
			test.change(&r)
			mustJoin(t, w, r)
			expectJoined(t, w, r)
			var started []string
			for _, s := range r.Desired.Services {
				if w.Service(s.Name).PID != before[s.Name] {
					started = append(started, s.Name)
				}
			}
			if diff := cmp.Diff(test.want, started); diff != "" {
				t.Errorf("started again (-want +got):\n%s", diff)
			}
		})
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

// TestAJoinThatIsCutConverges cuts the power at each change that a join makes, on a fresh host and at an upgrade in
// which every kind of thing changes, also where another cluster has left its files.
func TestAJoinThatIsCutConverges(t *testing.T) {
	t.Parallel()
	old, fresh := newCargo("1"), newCargo("2b")
	for name, prepare := range map[string]func(w *sim.Windows){
		"fresh": func(*sim.Windows) {},
		"upgrade": func(w *sim.Windows) {
			mustSend(t, w, old)
			r := newRequest(old)
			r.Desired.Files[0].Content = "{\"old\":true}"
			r.Desired.Files = append(r.Desired.Files, desired.File{Path: registryFile, Content: "old"})
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

func expectNoLeftovers(t *testing.T, w *sim.Windows) {
	t.Helper()
	err := w.Disk().Walk(`C:\k`, func(name string, _ fs.FileInfo) error {
		if strings.HasSuffix(name, ".part") || name == registryFile {
			t.Errorf("%s is there", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestARestartThatWasCutIsMadeGood fails the join after a file was written and before its reader was started again,
// without a power cut that would start it anyway.
func TestARestartThatWasCutIsMadeGood(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustJoin(t, w, r)
	pid := w.Service("kubelet").PID
	r.Desired.Files[0].Content = "{ }"
	w.FailNext("stop kubelet")
	if _, err := newWire(w).join(r); err == nil {
		t.Fatal("the join succeeded")
	}
	mustJoin(t, w, r)
	expectJoined(t, w, r)
	if w.Service("kubelet").PID == pid {
		t.Error("the kubelet runs with the old configuration")
	}
}

// TestKeysOfRequestsWithAFormerTokenGo is about requests that are never approved any more: who finds the key of one
// would wait for it.
func TestKeysOfRequestsWithAFormerTokenGo(t *testing.T) {
	for name, test := range map[string]struct {
		token string
		fails []string // operations that fail in a join of their own before the last one
		kept  bool
	}{
		"the same token":                 {token: token, kept: true},
		"another token":                  {token: "newer"},
		"another token, the restart cut": {token: "newer", fails: []string{"stop kubelet", "remove " + kubeletPendingFile, "remove " + PendingFile, "start kubelet"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			mustJoin(t, w, r)
			keys := []string{PendingFile, kubeletPendingFile}
			for _, key := range keys {
				mustWrite(t, w.Disk(), key, "a key")
			}
			r.Bootstrap.Token = test.token
			for _, operation := range test.fails {
				w.FailNext(operation)
				if _, err := newWire(w).join(r); err == nil {
					t.Errorf("the join succeeded although %q failed", operation)
				}
			}
			mustJoin(t, w, r)
			expectJoined(t, w, r)
			for _, key := range keys {
				if w.Disk().Exists(key) != test.kept {
					t.Errorf("%s is there: %t, want %t", key, !test.kept, test.kept)
				}
			}
		})
	}
}

func TestAServiceThatIsNotOursIsLeftAlone(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	foreign := desired.Service{Name: "containerd", Description: "Docker's", Command: `C:\Program Files\Docker\containerd.exe`}
	if _, err := w.Host().Services.Put(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	before := w.Changes()
	_, err := newWire(w).join(newRequest(c))
	e := expectCode(t, err, agent.CodeServiceConflict)
	for _, part := range []string{`"containerd"`, "Docker's", "sc.exe delete containerd"} {
		if !strings.Contains(e.Message, part) {
			t.Errorf("%q does not say %s", e.Message, part)
		}
	}
	if changes := w.Changes() - before; changes != 0 {
		t.Errorf("%d changes were made", changes)
	}
}

func TestServicesThatAreWantedNoMoreAreRemoved(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Services = append(r.Desired.Services, ours("csi-proxy", desired.VersionFolder(c.digest())+`\kubelet.exe`, "kubelet"))
	mustJoin(t, w, r)
	foreign := desired.Service{Name: "backup", Description: "Backs up", Command: `C:\k\kubelet.exe`}
	if _, err := w.Host().Services.Put(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	before := w.Service("kubelet").PID
	r.Desired.Services = r.Desired.Services[:3]
	result := mustJoin(t, w, r)
	expectJoined(t, w, r)
	if w.Service("csi-proxy").Name != "" || !slices.Contains(result.Changed, "service csi-proxy removed") {
		t.Errorf("csi-proxy is %+v; changed: %q", w.Service("csi-proxy"), result.Changed)
	}
	if w.Service("backup").Name == "" || w.Service("kubelet").PID != before {
		t.Error("a service of others was removed, or one of ours restarted")
	}
}

func TestContentThatIsMissingStopsTheJoin(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	r := newRequest(c)
	last := len(c.contents) - 1
	c.contents = c.contents[:last]
	mustSend(t, w, c)
	_, err := newWire(w).join(r)
	if e := expectCode(t, err, agent.CodeContentMissing); !strings.Contains(e.Message, `cni\host-local.exe`) {
		t.Errorf("%q does not name the file", e.Message)
	}
	if w.Disk().Exists(desired.VersionFolder(r.Desired.Digest)) {
		t.Error("something was linked")
	}
}

func TestAServiceThatDoesNotStartSaysWhatItsLogSays(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	mustWrite(t, w.Disk(), `C:\var\log\kubelet\kubelet.log`, "many lines\nE1120 the last line says why\n")
	w.FailNext("start kubelet")
	r := newRequest(c)
	_, err := newWire(w).join(r)
	e := expectCode(t, err, agent.CodeServiceFailed)
	for _, part := range []string{"kubelet", "simulated failure", "the last line says why"} {
		if !strings.Contains(e.Message, part) {
			t.Errorf("%q does not say %q", e.Message, part)
		}
	}
	mustJoin(t, w, r)
	expectJoined(t, w, r)
}

func TestBadRequestsOfJoinAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(r *agent.JoinRequest){
		"no node":      func(r *agent.JoinRequest) { r.Node = "" },
		"host name":    func(r *agent.JoinRequest) { r.Hostname = "win 1" },
		"SSH key":      func(r *agent.JoinRequest) { r.Desired.AuthorizedKeys = []string{"a key"} },
		"SSH keys":     func(r *agent.JoinRequest) { r.Desired.AuthorizedKeys = []string{keyLine("a") + "\n" + keyLine("b")} },
		"digest":       func(r *agent.JoinRequest) { r.Desired.Digest = "short" },
		"payload path": func(r *agent.JoinRequest) { r.Desired.Payload[0].Path = `..\..\Windows\x.exe` },
		"payload root": func(r *agent.JoinRequest) { r.Desired.Payload[0].Path = `\Windows\x.exe` },
		"payload hash": func(r *agent.JoinRequest) { r.Desired.Payload[0].SHA256 = `..\x` },
		"file path":    func(r *agent.JoinRequest) { r.Desired.Files[0].Path = `C:\k\..\Windows\x` },
		"folder":       func(r *agent.JoinRequest) { r.Desired.Directories[0] = `D:\x` },
		"CNI path":     func(r *agent.JoinRequest) { r.Desired.CNI.Path = `\\server\share` },
		"no token":     func(r *agent.JoinRequest) { r.Bootstrap.Token = "" },
		"a circle":     func(r *agent.JoinRequest) { r.Desired.Services[0].DependsOn = []string{"kubelet"} },
		"no such one":  func(r *agent.JoinRequest) { r.Desired.Services[0].DependsOn = []string{"network"} },
		"probe":        func(r *agent.JoinRequest) { r.Desired.Services[0].Ready = "http://10.0.0.1/" },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			spoil(&r)
			_, err := newWire(w).join(r)
			expectCode(t, err, agent.CodeRequestInvalid)
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

func TestStatusTellsWhatHappened(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	mustJoin(t, w, newRequest(c))
	var status agent.Status
	if err := agent.Call(t.Context(), newWire(w), agent.CommandStatus, nil, &status, nil); err != nil {
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
