package desired_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
)

// TestRegistryAccessMatchesNodes expects the operator to reach registries with the settings of nodes, including
// passwords.
func TestRegistryAccessMatchesNodes(t *testing.T) {
	s := desired.Settings{Proxy: proxy.Config{Object: "Proxy", Path: "status", HTTPSProxy: "http://u:p@proxy.test:3128", NoProxy: ".inside.test"}}
	s.Registries.PullSecret = mirrors.PullSecret{Name: "a/b", DockerConfigJSON: []byte(`{"auths": {"r.test": {"username": "u", "password": "p"}}}`)}
	s.Registries.Sets = []mirrors.Set{{Kind: "WindowsConfig", Entries: []mirrors.Entry{{Source: "r.test", Mirrors: []mirrors.Mirror{{Location: "m.test"}}}}}}
	a, err := desired.AccessOf(desired.Cluster{Server: "https://api.test:6443", ServiceCIDRs: []string{"10.96.0.0/12"}}, s)
	if err != nil {
		t.Fatal(err)
	}
	if a.Proxy[proxy.HTTPSProxy] != "http://u:p@proxy.test:3128" || a.Proxy[proxy.NoProxy] == "" || a.Mirrors == nil || a.Mirrors.Sources[0].Prefix != "r.test" {
		t.Errorf("AccessOf() = %+v", a)
	}
	if c, ok := mirrors.ReadKeyring(a.PullSecret).For(mirrors.Name{Registry: "r.test", Repository: "x"}); !ok || c.Password != "p" {
		t.Errorf("the credential is %+v", c)
	}
	if _, err := desired.AccessOf(desired.Cluster{Server: "https://api.test"}, desired.Settings{Proxy: proxy.Config{HTTPProxy: "no url at all"}}); err == nil {
		t.Error("a proxy without an address is accepted")
	}
	if a, err := desired.AccessOf(desired.Cluster{Server: "https://api.test"}, desired.Settings{}); err != nil || a.PullSecret != nil || a.Mirrors != nil {
		t.Errorf("without settings: %+v, %v", a, err)
	}
}
