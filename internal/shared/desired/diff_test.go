package desired_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/payload"
)

// all returns the services of a host with everything, in the order in which they start.
func all() []string {
	return []string{"containerd", "kubelet", "csi-proxy", "windows_exporter", api.WICDService}
}

// nodeOf returns what a host gets, with nothing left open.
func nodeOf(t *testing.T, change func(*desired.Inputs)) desired.Node {
	t.Helper()
	in := inputs()
	in.Payload, in.Config.CSIProxy = declared(), v1alpha1.CSIProxyRun
	change(&in)
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	on, err := rendered.Node.On(desired.Local{Node: "win-1", NodeIP: "10.1.2.3"}, rendered.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	return on
}

// replace changes the hash of a program in the payload.
func replace(in *desired.Inputs, path string) {
	files := slices.Clone(in.Payload.Files)
	for i := range files {
		if files[i].Path == path {
			files[i].SHA256 = strings.Repeat("b", 64)
		}
	}
	in.Payload = payload.New(files, in.Payload.Setup)
}

// TestDiffOfSettings expects the disruption of changing each setting.
func TestDiffOfSettings(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*desired.Inputs)
		want   string
	}{
		"nothing":                 {func(*desired.Inputs) {}, "none"},
		"operator's version":      {func(in *desired.Inputs) { in.Version = "0.2.0-aaaaaaa" }, "none"},
		"mirrors and credentials": {func(in *desired.Inputs) { in.Settings.Registries = settings(t).Registries }, "none"},
		"trusted certificates":    {func(in *desired.Inputs) { in.Settings.Bundles, in.Settings.Now = settings(t).Bundles, settings(t).Now }, "none"},
		"kubelet's client CA":     {func(in *desired.Inputs) { in.Cluster.KubeletClientCA = "OTHER\n" }, "none"},
		"pod network":             {func(in *desired.Inputs) { in.Config.Network = custom(`{"name": "x", "type": "y"}`) }, "none"},
		"count of logs":           {func(in *desired.Inputs) { in.Config.Logs.Count = 9 }, "none"},
		"size of logs":            {func(in *desired.Inputs) { in.Config.Logs.Size = "5Mi" }, "restart of kubelet, csi-proxy"},
		"csi-proxy":               {func(in *desired.Inputs) { in.Config.CSIProxy = v1alpha1.CSIProxyOff }, "none"},
		"max pods":                {func(in *desired.Inputs) { in.Config.Kubelet.MaxPods = 7 }, "restart of kubelet"},
		"eviction and images": {func(in *desired.Inputs) {
			in.Config.Kubelet.ImageGCLowThresholdPercent, in.Config.Kubelet.EvictionHard = 70, map[string]string{"memory.available": "1Gi"}
		}, "restart of kubelet"},
		"proxy":                 {func(in *desired.Inputs) { in.Settings.Proxy = settings(t).Proxy }, "restart of containerd, kubelet"},
		"password of the proxy": {func(in *desired.Inputs) { in.Settings.Proxy = proxy.Config{HTTPProxy: "http://a:b@c:1"} }, "restart of containerd, kubelet"},
		"exporter":              {func(in *desired.Inputs) { replace(in, "windows_exporter.exe") }, "restart of " + strings.Join(all(), ", ")},
		"WICD":                  {func(in *desired.Inputs) { replace(in, payload.WICD) }, "restart of " + strings.Join(all(), ", ")},
		"CNI plugin":            {func(in *desired.Inputs) { replace(in, "cni/host-local.exe") }, "restart of " + strings.Join(all(), ", ")},
		"kubelet":               {func(in *desired.Inputs) { replace(in, "kubelet.exe") }, "drain"},
		"containerd":            {func(in *desired.Inputs) { replace(in, "containerd/containerd.exe") }, "drain"},
		"containerd's shim":     {func(in *desired.Inputs) { replace(in, "containerd/containerd-shim-runhcs-v1.exe") }, "drain"},
	} {
		t.Run(name, func(t *testing.T) {
			old := nodeOf(t, func(*desired.Inputs) {})
			d := desired.Diff(old, nodeOf(t, test.change))
			if d.String() != test.want {
				t.Errorf("got %s, want %s; changes: %v", d, test.want, d.Changes)
			}
			if text := fmt.Sprint(d); strings.Contains(text, "a:b@c") {
				t.Errorf("a password is told: %s", text)
			}
			if back := desired.Diff(nodeOf(t, test.change), old); back.String() != test.want {
				t.Errorf("the way back costs %s, the way there %s", back, test.want)
			}
		})
	}
}

// TestDiffOfNodes has changes that no setting makes today.
func TestDiffOfNodes(t *testing.T) {
	service := func(name, command string, dependsOn ...string) desired.Service {
		return desired.Service{Name: name, Command: command, DependsOn: dependsOn}
	}
	program := func(path, hash string) desired.PayloadFile { return desired.PayloadFile{Path: path, SHA256: hash} }
	chain := []desired.Service{service("a", `C:\k\a.exe C:\k\a.conf`), service("b", "b", "a"), service("c", "c", "b"), service("d", "d")}
	with := func(change func(*desired.Node)) desired.Node {
		n := desired.Node{Services: slices.Clone(chain), Files: []desired.File{{Path: `C:\k\a.conf`, Content: "1"}}, Payload: []desired.PayloadFile{program("a.exe", "1")}}
		change(&n)
		return n
	}
	same := func(*desired.Node) {}
	for name, test := range map[string]struct {
		old, new func(*desired.Node)
		want     string
		says     string
	}{
		"who depends on it restarts, too":    {same, func(n *desired.Node) { n.Services[0].Command += " x" }, "restart of a, b, c", "service a"},
		"who does not depend on it stays":    {same, func(n *desired.Node) { n.Services[3].Command += " x" }, "restart of d", "service d"},
		"a file that a command names":        {same, func(n *desired.Node) { n.Files = []desired.File{{Path: `C:\k\a.conf`, Content: "2"}} }, "restart of a, b, c", `file C:\k\a.conf`},
		"a file that comes":                  {func(n *desired.Node) { n.Files = nil }, same, "restart of a, b, c", `file C:\k\a.conf added`},
		"a file that goes":                   {same, func(n *desired.Node) { n.Files = nil }, "restart of a, b, c", `file C:\k\a.conf removed`},
		"rights of a file":                   {same, func(n *desired.Node) { n.Files = []desired.File{{Path: `C:\k\a.conf`, Content: "1", Secret: true}} }, "none", `access rights of file C:\k\a.conf`},
		"a program under the name it has":    {same, func(n *desired.Node) { n.Payload = []desired.PayloadFile{program("a.exe", "2")} }, "restart of a, b, c", "program a.exe"},
		"a program that comes":               {func(n *desired.Node) { n.Payload = nil }, same, "none", "program a.exe added"},
		"a program that goes":                {same, func(n *desired.Node) { n.Payload = nil }, "none", "program a.exe removed"},
		"a service that comes is no restart": {func(n *desired.Node) { n.Services = n.Services[:3] }, same, "none", "service d added"},
		"a service that goes":                {same, func(n *desired.Node) { n.Services = n.Services[:3] }, "none", "service d removed"},
		"a dependency that comes":            {same, func(n *desired.Node) { n.Services[3].DependsOn = []string{"c"} }, "restart of d", "service d"},
		"dependencies in another order":      {func(n *desired.Node) { n.Services[3].DependsOn = []string{"a", "B"} }, func(n *desired.Node) { n.Services[3].DependsOn = []string{"b", "a"} }, "none", "service d, in settings that do not affect its process"},
		"environment":                        {same, func(n *desired.Node) { n.Services[1].Environment = map[string]string{"X": "1"} }, "restart of b, c", "service b"},
		"what it needs":                      {same, func(n *desired.Node) { n.Services[0].Needs = []string{"x"} }, "none", "service a, in settings that do not affect its process"},
		"a feature":                          {same, func(n *desired.Node) { n.Features = []string{"Containers"} }, "reboot", "Windows feature Containers"},
		"Hyper-V":                            {same, func(n *desired.Node) { n.Features = append(slices.Clone(n.Features), desired.HyperVFeature) }, "none", "Windows feature Microsoft-Hyper-V, which"},
		"a feature that goes":                {func(n *desired.Node) { n.Features = []string{"Containers"} }, same, "none", "Windows feature Containers is no longer needed"},
		"the greatest counts": {same, func(n *desired.Node) {
			n.Features = []string{"Containers"}
			n.Services[3].Command += " x"
		}, "reboot", "Windows feature Containers"},
	} {
		t.Run(name, func(t *testing.T) {
			d := desired.Diff(with(test.old), with(test.new))
			if d.String() != test.want || len(d.Changes) == 0 || !strings.HasPrefix(d.Changes[0].What, test.says) {
				t.Errorf("got %s, want %s for %q: %+v", d, test.want, test.says, d.Changes)
			}
		})
	}
}

func TestAFreshHostHasNothingToInterrupt(t *testing.T) {
	node := nodeOf(t, func(in *desired.Inputs) { in.Settings = settings(t) })
	d := desired.Diff(desired.Node{Features: node.Features}, node)
	if d.Disruption != desired.None || d.Services != nil {
		t.Errorf("got %s", d)
	}
}

// TestDiffSeesEveryField changes each field of a Node, however deep, and expects a change.
func TestDiffSeesEveryField(t *testing.T) {
	node := nodeOf(t, func(in *desired.Inputs) { in.Settings = settings(t) })
	node.SecretsVersion = "1"
	for i := range node.Services { // set fields that are empty, so that they can change
		node.Services[i].DependsOn, node.Services[i].Needs, node.Services[i].Ready = []string{"x"}, []string{"y"}, "z"
		node.Services[i].Reads, node.Services[i].Environment = []string{"x"}, map[string]string{"x": "y"}
	}
	text, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	read := func() (n desired.Node) {
		if err := json.Unmarshal(text, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if d := desired.Diff(node, read()); len(d.Changes) > 0 {
		t.Fatalf("a Node differs from itself: %+v", d)
	}
	fields := 0
	for {
		other := read()
		at, done := mutate(reflect.ValueOf(&other).Elem(), fields, "Node")
		if done {
			break
		}
		fields++
		if strings.Contains(at, ".Size") && strings.Contains(at, ".Payload") {
			continue // follows from the hash
		}
		if d := desired.Diff(node, other); len(d.Changes) == 0 {
			t.Errorf("%s changed, and nothing is told", at)
		}
	}
	if fields < 100 {
		t.Errorf("only %d fields were changed", fields)
	}
}

// mutate changes the nth string, number or bool of a value, and returns its path. done is true if there are
// fewer.
func mutate(v reflect.Value, n int, path string) (at string, done bool) {
	left := n
	var walk func(v reflect.Value, path string) bool
	walk = func(v reflect.Value, path string) bool {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if walk(v.Field(i), path+"."+v.Type().Field(i).Name) {
					return true
				}
			}
		case reflect.Pointer:
			return !v.IsNil() && walk(v.Elem(), path)
		case reflect.Slice:
			for i := range v.Len() {
				if walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i)) {
					return true
				}
			}
		case reflect.Map:
			for _, key := range slices.SortedFunc(maps.Keys(v.Interface().(map[string]string)), strings.Compare) {
				if left--; left < 0 {
					v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf("changed"))
					at = path + "[" + key + "]"
					return true
				}
			}
		default:
			if left--; left >= 0 {
				return false
			}
			at = path
			switch v.Kind() {
			case reflect.String:
				v.SetString(v.String() + " changed")
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.Uint16:
				v.SetUint(v.Uint() + 1)
			default:
				v.SetInt(v.Int() + 1)
			}
			return true
		}
		return false
	}
	return at, !walk(v, path)
}

func TestDisruptionsAreOrderedAndHaveNames(t *testing.T) {
	order := []desired.Disruption{desired.None, desired.Restart, desired.Drain, desired.Reboot}
	if !slices.IsSorted(order) {
		t.Error("they are not in order")
	}
	if diff := cmp.Diff("[none restart drain reboot]", fmt.Sprint(order)); diff != "" {
		t.Error(diff)
	}
}
