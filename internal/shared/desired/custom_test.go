package desired_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestRenderRefusesNetworksThatCannotWork(t *testing.T) {
	tests := map[string]struct {
		network v1alpha1.NetworkSpec
		message string
	}{
		"no provider":                  {v1alpha1.NetworkSpec{}, "spec.network.provider is empty"},
		"nothing for Custom":           {v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkCustom}, "spec.network.custom is empty"},
		"broken template":              {custom(`{"name": "{{.PodCIDR"}`), "parsing the template"},
		"unknown field":                {custom(`{"name": "{{.PodCidr}}", "type": "x"}`), "executing the template"},
		"not JSON":                     {custom(`name: {{.PodCIDR}}`), "not JSON"},
		"unknown field of nodes":       {custom(`{"name": "x", "type": "t", "node": "{{"{{.Node}}"}}"}`), "no node has a value for {{.Node}}"},
		"no type":                      {custom(`{"name": "x"}`), "no name or no type"},
		"two configurations":           {with(func(c *v1alpha1.CustomNetwork) { c.ConfigDir = `C:\etc\cni\net.d` }), "exactly one of cniConfig and configDir"},
		"no configuration":             {with(func(c *v1alpha1.CustomNetwork) { c.CNIConfig = "" }), "exactly one of cniConfig and configDir"},
		"a folder of the operator":     {with(func(c *v1alpha1.CustomNetwork) { c.BinDir = `c:\K\versions\x` }), `C:\k or below it`},
		"kube-proxy without a network": {with(func(c *v1alpha1.CustomNetwork) { c.KubeProxy = v1alpha1.KubeProxyManaged }), "set networkName if and only if kubeProxy is Managed"},
		"a network without kube-proxy": {with(func(c *v1alpha1.CustomNetwork) { c.NetworkName = "l2" }), "set networkName if and only if kubeProxy is Managed"},
		"kube-proxy for an overlay": {with(func(c *v1alpha1.CustomNetwork) {
			c.CNIConfig, c.KubeProxy, c.NetworkName = `{"name": "x", "type": "win-overlay"}`, v1alpha1.KubeProxyManaged, "x"
		}), "plugin win-overlay creates overlay networks"},
		"kube-proxy for an overlay of Flannel's plugin": {with(func(c *v1alpha1.CustomNetwork) {
			c.CNIConfig, c.KubeProxy, c.NetworkName = `{"name": "x", "type": "flannel", "delegate": {"type": "win-overlay"}}`, v1alpha1.KubeProxyManaged, "x"
		}), "plugin win-overlay creates overlay networks"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := inputs()
			in.Config.Network = test.network
			_, err := desired.Render(in)
			if !errors.Is(err, desired.ErrNetwork) || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v, want ErrNetwork with %q", err, test.message)
			}
		})
	}
}

func custom(config string) v1alpha1.NetworkSpec {
	return v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkCustom, Custom: &v1alpha1.CustomNetwork{CNIConfig: config}}
}

// with returns a network of the user with one change.
func with(change func(*v1alpha1.CustomNetwork)) v1alpha1.NetworkSpec {
	n := custom(bridge)
	change(n.Custom)
	return n
}

// userFolders returns folders that a user may or may not configure.
func userFolders() map[string]bool {
	return map[string]bool{
		`C:\opt\cni\bin`: true, `C:\etc\cni\net.d`: true, `c:\cni`: true, `C:\Program Files\containerd\cni\bin`: true, `C:\kube`: true,
		`C:\ProgramData\Vendor\cni`: true, `C:\var\lib\calico`: true, `C:\Windows2`: true, `C:\` + strings.Repeat("a", 197): true,

		"": false, `C:\`: false, `C:`: false, `D:\cni`: false, `C:/opt/cni`: false, `\\server\share`: false, `C:\opt\`: false, `C:\\opt`: false,
		`C:\opt\..\k`: false, `C:\.hidden`: false, `C:\opt.`: false, `C:\opt \cni`: false, `C:\ opt`: false, `C:\PROGRA~1\cni`: false,
		`C:\a'b`: false, "C:\\a\nb": false, `C:\a:b`: false, `C:\a*`: false, `C:\` + strings.Repeat("a", 198): false, `C:\é`: false,
		`C:\k`: false, `C:\K\cni`: false, `C:\Windows`: false, `c:\WINDOWS\System32`: false, `C:\Users\Public`: false, `C:\ProgramData`: false,
		`C:\ProgramData\Containerd\x`: false, `C:\var\log\x`: false, `C:\var\lib\cni`: false, `C:\var\lib\kubelet\pods`: false,
	}
}

func TestReservedUserFoldersAreRejected(t *testing.T) {
	for folder, want := range userFolders() {
		in := inputs()
		in.Config.Network.Custom = &v1alpha1.CustomNetwork{ConfigDir: v1alpha1.HostFolder(folder)}
		_, err := desired.Render(in)
		if got := err == nil; got != want {
			t.Errorf("folder %q: %v, want accepted: %v", folder, err, want)
		}
		if err != nil && !errors.Is(err, desired.ErrNetwork) {
			t.Errorf("folder %q: %v is not ErrNetwork", folder, err)
		}
		if folder == "" {
			continue // not a folder
		}
		node := bounded(t, v1alpha1.NetworkCustom)
		node.UserNetwork = &desired.UserNetwork{BinDir: folder}
		for i, f := range node.Files {
			node.Files[i].Content = strings.Replace(f.Content, `\cni']`, `\cni', '`+folder+`']`, 1) // as rendered with this folder
		}
		if err := node.CheckBounds(); (err == nil) != want {
			t.Errorf("CheckBounds with folder %q: %v, want accepted: %v", folder, err, want)
		}
	}
}

// FuzzFoldersOfTheUser: an accepted folder is one literal of containerd's configuration, and outside of the
// operator's folders.
func FuzzFoldersOfTheUser(f *testing.F) {
	for folder := range userFolders() {
		f.Add(folder)
	}
	f.Fuzz(func(t *testing.T, folder string) {
		in := inputs()
		in.Config.Network.Custom = &v1alpha1.CustomNetwork{ConfigDir: v1alpha1.HostFolder(folder)}
		if _, err := desired.Render(in); err != nil {
			return
		}
		lower := strings.ToLower(folder) + `\`
		if len(folder) > 200 || strings.ContainsAny(folder, "'\"\r\n/*?~") || strings.Contains(lower, `..\`) || !strings.HasPrefix(lower, `c:\`) ||
			strings.HasPrefix(lower, `c:\k\`) || strings.HasPrefix(lower, `c:\windows\`) {
			t.Errorf("folder %q is accepted", folder)
		}
	})
}
