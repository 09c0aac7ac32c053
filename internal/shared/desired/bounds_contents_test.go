package desired_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestNoContentRunsAnotherProgram rejects files that could make programs of a node run others or grant access to everyone, and paths that
// Windows reads as others.
func TestNoContentRunsAnotherProgram(t *testing.T) {
	folder := desired.VersionFolder(bounded(t, v1alpha1.NetworkFlannel).Digest)
	command := func(c string) func(*desired.Node) {
		return func(n *desired.Node) { n.Services[0].Command = strings.ReplaceAll(c, "<folder>", folder) }
	}
	// in replaces text in the file with that path.
	in := func(path, before, text string) func(*desired.Node) {
		return func(n *desired.Node) {
			for i := range n.Files {
				if f := &n.Files[i]; f.Path == path {
					if !strings.Contains(f.Content, before) {
						t.Errorf("file %s has no %q", path, before)
					}
					f.Content = strings.Replace(f.Content, before, text, 1)
					return
				}
			}
			t.Errorf("file %s does not exist", path)
		}
	}
	pods := func(config string) func(*desired.Node) {
		return func(n *desired.Node) { n.CNI = &desired.CNI{Path: `C:\k\cni\config\cni.conf`, Content: config} }
	}
	const (
		containerd = `C:\k\containerd\containerd_conf.toml`
		kubelet    = `C:\k\kubelet.conf`
		wicd       = `C:\k\wicd-kubeconfig`
	)
	for name, change := range map[string]func(*desired.Node){
		"containerd runs a shell on each layer": in(containerd, "[grpc]",
			"[stream_processors.'x']\npath = 'C:\\Windows\\System32\\cmd.exe'\nargs = ['/c', 'x']\naccepts = ['application/vnd.oci.image.layer.v1.tar+gzip']\nreturns = 'x'\n[grpc]"),
		"containerd has another shim":             in(containerd, folder+`\containerd\containerd-shim-runhcs-v1.exe`, `\\evil\share\x.exe`),
		"containerd reads more configuration":     in(containerd, "version = 3\n", "version = 3\nimports = ['C:\\Users\\Public\\evil.toml']\n"),
		"containerd lets pods tell the shim":      in(containerd, "pod_annotations = []", "pod_annotations = ['io.microsoft.*']"),
		"containerd takes plugins from elsewhere": in(containerd, folder+`\cni'`, folder+`\cni', 'C:\Users\Public'`),
		"containerd loads plugins":                in(containerd, "[grpc]", "[proxy_plugins.x]\ntype = 'snapshot'\naddress = 'x'\n[grpc]"),
		"the kubelet lets everybody in":           in(kubelet, `"enabled": false`, `"enabled": true`),
		"the kubelet authorizes everyone":         in(kubelet, `"kind"`, `"authorization": {"mode": "AlwaysAllow"}, "kind"`),
		"the kubelet has a field twice":           in(kubelet, `"kind"`, `"authentication": {"anonymous": {"enabled": true}}, "kind"`),
		"the kubelet has a field in another case": in(kubelet, `"kind"`, `"Authentication": {"anonymous": {"enabled": true}}, "kind"`),
		"the kubelet reads pods from elsewhere":   in(kubelet, `C:\\k\\etc`, `\\\\evil\\share`),
		"an invalid kubelet configuration":        in(kubelet, "{", "["),
		"WICD's identity is a program":            in(wicd, `"client-key"`, `"exec": {"command": "cmd.exe"}, "client-key"`),
		"a network plugin from elsewhere":         pods(`{"name":"x","type":"..\\..\\..\\..\\Windows\\System32\\cmd"}`),
		"a plugin of a plugin from elsewhere":     pods(`{"name":"x","type":"win-bridge","ipam":{"type":"C:/Users/Public/x"}}`),
		"a plugin in another case":                pods(`{"name":"x","type":"win-bridge","plugins":[{"TYPE":"a/b"}]}`),
		"configuration from the root, slash":      command(`<folder>\containerd\containerd.exe --config /Users/Public/evil.toml --run-service`),
		"configuration from the root, backslash":  command(`<folder>\containerd\containerd.exe --config \Users\Public\evil.toml --run-service`),
		"configuration by a relative path":        command(`<folder>\containerd\containerd.exe --config ..\..\Users\Public\evil.toml --run-service`),
		"a relative path behind =":                command(`<folder>\kubelet.exe --config=../../Users/Public/evil.yaml`),
		"a path of the drive's own folder":        command(`<folder>\kubelet.exe --config=C:evil.yaml`),
		"an anonymous kubelet by flags":           command(`<folder>\kubelet.exe --anonymous-auth=true --authorization-mode=AlwaysAllow --address=0.0.0.0`),
		"providers of credentials from elsewhere": command(`<folder>\kubelet.exe --image-credential-provider-bin-dir=C:\k\cni`),
		"a log over configuration":                command(`<folder>\kube-log-runner.exe -log-file=C:\k\kubelet.conf <folder>\kubelet.exe`),
		"a log from the root of the drive":        command(`<folder>\kube-log-runner.exe -log-file=\Windows\x.log <folder>\kubelet.exe`),
		"a log of another name":                   command(`<folder>\kube-log-runner.exe -log-file=C:\var\log\x.exe <folder>\kubelet.exe`),
		"a log runner without a program":          command(`<folder>\kube-log-runner.exe -log-file=C:\var\log\x.log`),
		"a device":                                command(`<folder>\containerd\containerd.exe --config \\?\C:\Users\evil.toml`),
		"a device by slashes":                     command(`<folder>\containerd\containerd.exe --config=//?/C:/Users/evil.toml`),
		"a device's name":                         command(`<folder>\containerd\containerd.exe --log-file C:\var\log\x.log:CON`),
		"a pipe":                                  command(`<folder>\containerd\containerd.exe --config \\.\pipe\evil`),
		"a drive behind a letter":                 command(`<folder>\containerd\containerd.exe -cD:\evil.toml`),
		"a flag that is not rendered":             command(`<folder>\containerd\containerd.exe publish`),
		"a file URL":                              command(`<folder>\kubelet.exe --config=file:///D:/evil`),
		"a quote within an argument":              command(`<folder>\kubelet.exe --config="C:\k\kubelet.conf`),
		"a program that no service is":            command(`<folder>\containerd\containerd-shim-runhcs-v1.exe`),
		"a server with a password":                command(`<folder>\hybrid-overlay-node.exe --k8s-apiserver=https://a:b@evil`),
	} {
		node := bounded(t, v1alpha1.NetworkFlannel)
		change(&node)
		if node.CheckBounds() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
