package daemon_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const token = "the-bootstrap-token"

// newRequest returns a request for a node with the programs of the cargo.
func newRequest(c *cargo) wicdapi.JoinRequest {
	folder := desired.VersionFolder(c.digest())
	return wicdapi.JoinRequest{
		Cluster: "11111111-2222-3333-4444-555555555555", Namespace: "operators", Local: desired.Local{Node: "win-1", NodeIP: "192.0.2.10"}, MayReboot: true,
		// No client can be created with this CA, so that nothing tries to connect.
		Bootstrap: wicdapi.Bootstrap{Server: "https://api.example:6443", CA: "none", Token: token},
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
			CNI:        &desired.CNI{Path: `C:\k\cni\config\cni.conf`, Content: `{"name":"n","type":"t","cidr":"{{.PodCIDR}}"}`},
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

// known returns a declaration as Windows stores it, without WICD's own fields.
func known(s desired.Service) desired.Service {
	s.Ready, s.Needs, s.Reads, s.Log = "", nil, nil, desired.Log{}
	return s
}

func ours(name, command string, dependsOn ...string) desired.Service {
	return desired.Service{Name: name, Description: desired.ServiceDescription(name), Command: command, DependsOn: dependsOn}
}

// expectJoined checks that the computer is as requested.
func expectJoined(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) {
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
	var got wicdapi.Facts
	if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandFacts, nil, &got, nil); err != nil {
		t.Fatal(err)
	}
	want := &wicdapi.Joined{Cluster: r.Cluster, Node: r.Node, NodeIP: r.NodeIP, Digest: r.Desired.Digest, Version: r.Desired.Version, HasCertificate: disk.Exists(WICDFile)}
	if diff := cmp.Diff(want, got.Joined); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
}

// expectServices checks that the services are as declared and running.
func expectServices(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) {
	t.Helper()
	for _, s := range r.Desired.Services {
		s.Command = strings.NewReplacer("${NODE_NAME}", r.Node, "${NODE_IP}", r.NodeIP).Replace(s.Command)
		got := w.Service(s.Name)
		if diff := cmp.Diff(known(s), got.Service); diff != "" {
			t.Errorf("service %s (-want +got):\n%s", s.Name, diff)
		}
		if got.State != hostapi.Running {
			t.Errorf("service %s is %s", s.Name, got.State)
		}
	}
}

func expectNoLeftovers(t *testing.T, w *sim.Windows) {
	t.Helper()
	err := w.Disk().Walk(`C:\k`, func(name string, _ fs.FileInfo) error {
		if strings.HasSuffix(name, ".part") || name == plainFile {
			t.Errorf("%s is there", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
