package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/payload"
)

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

// TestDisruptionsOfSettings expects the disruption of changing each setting.
func TestDisruptionsOfSettings(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*desired.Inputs)
		want   v1alpha1.PlanDisruption
	}{
		"nothing":                 {func(*desired.Inputs) {}, v1alpha1.DisruptionNone},
		"operator's version":      {func(in *desired.Inputs) { in.Version = "0.2.0-aaaaaaa" }, v1alpha1.DisruptionNone},
		"mirrors and credentials": {func(in *desired.Inputs) { in.Settings.Registries = settings(t).Registries }, v1alpha1.DisruptionNone},
		"trusted certificates":    {func(in *desired.Inputs) { in.Settings.Bundles, in.Settings.Now = settings(t).Bundles, settings(t).Now }, v1alpha1.DisruptionNone},
		"kubelet's client CA":     {func(in *desired.Inputs) { in.Cluster.KubeletClientCA = "OTHER\n" }, v1alpha1.DisruptionNone},
		"pod network":             {func(in *desired.Inputs) { in.Config.Network = custom(`{"name": "x", "type": "y"}`) }, v1alpha1.DisruptionNone},
		"count of logs":           {func(in *desired.Inputs) { in.Config.Logs.Count = 9 }, v1alpha1.DisruptionNone},
		"size of logs":            {func(in *desired.Inputs) { in.Config.Logs.Size = "5Mi" }, v1alpha1.DisruptionRestart},
		"csi-proxy":               {func(in *desired.Inputs) { in.Config.CSIProxy = v1alpha1.CSIProxyOff }, v1alpha1.DisruptionNone},
		"max pods":                {func(in *desired.Inputs) { in.Config.Kubelet.MaxPods = 7 }, v1alpha1.DisruptionRestart},
		"eviction and images": {func(in *desired.Inputs) {
			in.Config.Kubelet.ImageGCLowThresholdPercent, in.Config.Kubelet.EvictionHard = 70, map[string]string{"memory.available": "1Gi"}
		}, v1alpha1.DisruptionRestart},
		"proxy":                 {func(in *desired.Inputs) { in.Settings.Proxy = settings(t).Proxy }, v1alpha1.DisruptionRestart},
		"password of the proxy": {func(in *desired.Inputs) { in.Settings.Proxy = proxy.Config{HTTPProxy: "http://a:b@c:1"} }, v1alpha1.DisruptionRestart},
		"exporter":              {func(in *desired.Inputs) { replace(in, "windows_exporter.exe") }, v1alpha1.DisruptionRestart},
		"WICD":                  {func(in *desired.Inputs) { replace(in, payload.WICD) }, v1alpha1.DisruptionRestart},
		"CNI plugin":            {func(in *desired.Inputs) { replace(in, "cni/host-local.exe") }, v1alpha1.DisruptionRestart},
		"kubelet":               {func(in *desired.Inputs) { replace(in, "kubelet.exe") }, v1alpha1.DisruptionDrain},
		"containerd":            {func(in *desired.Inputs) { replace(in, "containerd/containerd.exe") }, v1alpha1.DisruptionDrain},
		"containerd's shim":     {func(in *desired.Inputs) { replace(in, "containerd/containerd-shim-runhcs-v1.exe") }, v1alpha1.DisruptionDrain},
	} {
		t.Run(name, func(t *testing.T) {
			old := nodeOf(t, func(*desired.Inputs) {})
			if got := desired.DisruptionOf(old, nodeOf(t, test.change)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got := desired.DisruptionOf(nodeOf(t, test.change), old); got != test.want {
				t.Errorf("on the way back, got %s, want %s", got, test.want)
			}
		})
	}
}

// TestDisruptionsOfNodes has changes that no setting makes today.
func TestDisruptionsOfNodes(t *testing.T) {
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
		want     v1alpha1.PlanDisruption
	}{
		"a command line":                {same, func(n *desired.Node) { n.Services[0].Command += " x" }, v1alpha1.DisruptionRestart},
		"a file that a command names":   {same, func(n *desired.Node) { n.Files = []desired.File{{Path: `C:\k\a.conf`, Content: "2"}} }, v1alpha1.DisruptionRestart},
		"an added file":                 {func(n *desired.Node) { n.Files = nil }, same, v1alpha1.DisruptionRestart},
		"a removed file":                {same, func(n *desired.Node) { n.Files = nil }, v1alpha1.DisruptionRestart},
		"rights of a file":              {same, func(n *desired.Node) { n.Files = []desired.File{{Path: `C:\k\a.conf`, Content: "1", Secret: true}} }, v1alpha1.DisruptionNone},
		"a replaced program":            {same, func(n *desired.Node) { n.Payload = []desired.PayloadFile{program("a.exe", "2")} }, v1alpha1.DisruptionRestart},
		"an added program":              {func(n *desired.Node) { n.Payload = nil }, same, v1alpha1.DisruptionNone},
		"a removed program":             {same, func(n *desired.Node) { n.Payload = nil }, v1alpha1.DisruptionNone},
		"an added service":              {func(n *desired.Node) { n.Services = n.Services[:3] }, same, v1alpha1.DisruptionNone},
		"a removed service":             {same, func(n *desired.Node) { n.Services = n.Services[:3] }, v1alpha1.DisruptionNone},
		"an added dependency":           {same, func(n *desired.Node) { n.Services[3].DependsOn = []string{"c"} }, v1alpha1.DisruptionRestart},
		"dependencies in another order": {func(n *desired.Node) { n.Services[3].DependsOn = []string{"a", "B"} }, func(n *desired.Node) { n.Services[3].DependsOn = []string{"b", "a"} }, v1alpha1.DisruptionNone},
		"environment":                   {same, func(n *desired.Node) { n.Services[1].Environment = map[string]string{"X": "1"} }, v1alpha1.DisruptionRestart},
		"a needed file":                 {same, func(n *desired.Node) { n.Services[0].Needs = []string{"x"} }, v1alpha1.DisruptionNone},
		"an added feature":              {same, func(n *desired.Node) { n.Features = []string{"Containers"} }, v1alpha1.DisruptionReboot},
		"Hyper-V":                       {same, func(n *desired.Node) { n.Features = append(slices.Clone(n.Features), desired.HyperVFeature) }, v1alpha1.DisruptionNone},
		"a removed feature":             {func(n *desired.Node) { n.Features = []string{"Containers"} }, same, v1alpha1.DisruptionNone},
		"the greatest disruption counts": {same, func(n *desired.Node) {
			n.Features = []string{"Containers"}
			n.Services[3].Command += " x"
		}, v1alpha1.DisruptionReboot},
	} {
		t.Run(name, func(t *testing.T) {
			if got := desired.DisruptionOf(with(test.old), with(test.new)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestFreshHostHasNoDisruption(t *testing.T) {
	node := nodeOf(t, func(in *desired.Inputs) { in.Settings = settings(t) })
	if got := desired.DisruptionOf(desired.Node{Features: node.Features}, node); got != v1alpha1.DisruptionNone {
		t.Errorf("got %s", got)
	}
}
