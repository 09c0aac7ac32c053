package desired

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
)

func enforced() *Policies { return &Policies{Mode: PolicyEnforce} }

// filledCNI returns the configuration of the pod network as a node writes it.
func filledCNI(t *testing.T, p *Policies) (File, string) {
	t.Helper()
	f := overlayCNI([]string{"10.132.0.0/14"}, []string{"10.96.0.0/16"}, p)
	content, err := NetworkValues{Network: "pods", PodCIDR: "10.132.1.0/24", LastPodIP: "10.132.1.253", ManagementIP: "192.0.2.10"}.Fill(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, content
}

func TestOnlyEnforcedPoliciesHavePlugin(t *testing.T) {
	for mode, p := range map[string]*Policies{"Off": nil, "Report": {Mode: "Report"}} {
		f, content := filledCNI(t, p)
		if f.Path != cniConfig || strings.Contains(content, policyPlugin) {
			t.Errorf("mode %s: %s is %s", mode, f.Path, content)
		}
		if _, err := libcni.NetworkPluginConfFromBytes([]byte(content)); err != nil {
			t.Errorf("mode %s: %v", mode, err)
		}
	}
}

// TestListHasSinglePluginAndOurs: libcni stores the network of a pod under the network's name, and converts it if the version differs.
func TestListHasSinglePluginAndOurs(t *testing.T) {
	_, content := filledCNI(t, nil)
	single, err := libcni.NetworkPluginConfFromBytes([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	f, content := filledCNI(t, enforced())
	list, err := libcni.NetworkConfFromBytes([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	if f.Path != cniList || list.Name != single.Network.Name || list.CNIVersion != single.Network.CNIVersion || !list.LoadOnlyInlinedPlugins || len(list.Plugins) != 2 {
		t.Fatalf("%s is %s", f.Path, content)
	}
	var first, alone map[string]any
	for raw, target := range map[string]*map[string]any{string(list.Plugins[0].Bytes): &first, string(single.Bytes): &alone} {
		if err := json.Unmarshal([]byte(raw), target); err != nil {
			t.Fatal(err)
		}
	}
	maps.DeleteFunc(alone, func(field string, _ any) bool { return field == "name" || field == "cniVersion" })
	if !reflect.DeepEqual(first, alone) {
		t.Errorf("the first plugin has %v, want %v", first, alone)
	}
	if got := list.Plugins[1].Network.Type; got != policyPlugin {
		t.Errorf("the last plugin is %s", got)
	}
}

func TestBoundsRequireChainOfMode(t *testing.T) {
	single, _ := filledCNI(t, nil)
	list, _ := filledCNI(t, enforced())
	changed := func(old, replacement string) File {
		return File{Path: list.Path, Content: strings.Replace(list.Content, old, replacement, 1)}
	}
	const ours = `"type": "wicd-cni"`
	for name, test := range map[string]struct {
		policies *Policies
		file     File
		want     string
	}{
		"off":                     {nil, single, ""},
		"report":                  {&Policies{Mode: "Report"}, single, ""},
		"enforce":                 {enforced(), list, ""},
		"enforce without plugin":  {enforced(), single, "does not match the policy mode"},
		"off with plugin":         {nil, list, "does not match the policy mode"},
		"report with plugin":      {&Policies{Mode: "Report"}, list, "does not match the policy mode"},
		"another last plugin":     {enforced(), changed(ours, `"type": "portmap"`), "followed by wicd-cni"},
		"settings for the plugin": {enforced(), changed(ours, ours+`, "allow": true`), "followed by wicd-cni"},
		"a single plugin":         {enforced(), File{Path: cniList, Content: single.Content}, "it has 0 plugins"},
		"a plugin in a folder":    {enforced(), changed("win-overlay", `C:\\x\\win-overlay`), "names without folders"},
	} {
		err := Node{Policies: test.policies, Network: &Network{MadeBy: OverlayService, Proxy: KubeProxyService, Files: []File{test.file}}}.CheckBounds()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
