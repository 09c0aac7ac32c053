package desired_test

import (
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
	"github.com/windows-machine-config/wmco/internal/shared/trust"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

const bridge = `{"cniVersion": "0.3.1", "name": "l2", "type": "win-bridge", "ipam": {"type": "host-local", "subnet": "{{.PodCIDR}}"},
 "dns": {"nameservers": ["{{.ClusterDNS}}"]}, "serviceCIDR": "{{.ServiceCIDR}}", "nodeIP": "{{.NodeIP}}"}`

func inputs() desired.Inputs {
	var config v1alpha1.WindowsConfigSpec
	config.Network.Provider = v1alpha1.NetworkCustom
	config.Network.Custom = &v1alpha1.CustomNetwork{CNIConfig: bridge}
	file := func(path string) payload.File {
		return payload.File{Path: path, Component: path, Version: "v1", Group: payload.Base, SHA256: strings.Repeat("a", 64), Size: 3}
	}
	return desired.Inputs{
		Version: "0.1.0-k1.36-3f9a2c1",
		Payload: payload.New([]payload.File{file("kubelet.exe"), file("containerd/containerd.exe"), file(payload.WICD)}, payload.File{}),
		Cluster: desired.Cluster{
			ID: "0f0e", Server: "https://api.example:6443", CA: "CA\n", KubeletClientCA: "CLIENT CA\n",
			ServiceCIDRs: []string{"10.96.0.0/16"}, DNSServers: []string{"10.96.0.10"}, Domain: "cluster.local",
		},
		Config: config,
	}
}

// TestRender compares everything a node gets with testdata/<case>.yaml.
func TestRender(t *testing.T) {
	cases := map[string]func(*desired.Inputs){
		"default": func(*desired.Inputs) {},
		"kubelet-settings": func(in *desired.Inputs) {
			in.Config.Kubelet = v1alpha1.KubeletSpec{
				MaxPods:        64,
				SystemReserved: map[string]string{"memory": "4Gi"},
				EvictionHard:   map[string]string{"memory.available": "500Mi", "nodefs.available": "5%"},
				KubeReserved:   map[string]string{"cpu": "200m"},
				EvictionSoft:   map[string]string{"memory.available": "1Gi"}, EvictionSoftGracePeriod: map[string]string{"memory.available": "90s"},
				EvictionMaxPodGracePeriod: 60, EvictionMinimumReclaim: map[string]string{"imagefs.available": "2Gi"},
				ImageGCHighThresholdPercent: 75, ImageGCLowThresholdPercent: 70, MaxParallelImagePulls: 4, ContainerLogMaxSize: "10Mi", ContainerLogMaxFiles: 3,
				PriorityClass: "HIGH_PRIORITY_CLASS", ShutdownGracePeriod: "90s", ShutdownGracePeriodCriticalPods: "30s",
			}
		},
		"kubelet-managers": func(in *desired.Inputs) {
			in.Config.Kubelet = v1alpha1.KubeletSpec{
				CPUManagerPolicy: v1alpha1.CPUManagerStatic, MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, KubeReserved: map[string]string{"memory": "1.5Gi"},
				TopologyManagerPolicy: v1alpha1.TopologyManagerBestEffort, TopologyManagerScope: v1alpha1.TopologyManagerPod,
			}
		},
		"overlay": func(in *desired.Inputs) {
			in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
			in.Cluster.Network = desired.ClusterNetwork{PodCIDRs: []string{"10.128.0.0/14"}, HybridCIDRs: []string{"10.132.0.0/14"}, VXLANPort: 9898,
				HostPrefixes: map[string]int{"10.132.0.0/14": 23}}
		},
		"flannel": func(in *desired.Inputs) {
			with := withFlannel(goodNetConf)
			in.Config.Network, in.Cluster.Network = with.Config.Network, with.Cluster.Network
			flanneld := payload.File{Path: "flanneld.exe", Component: "flanneld", Version: "v1", Group: payload.Flannel, SHA256: strings.Repeat("a", 64), Size: 3}
			in.Payload = payload.New(append(in.Payload.Files, flanneld), payload.File{})
		},
		"custom-installer": func(in *desired.Inputs) {
			in.Config.Network.Custom = &v1alpha1.CustomNetwork{ConfigDir: `C:\etc\cni\net.d`, BinDir: `C:\opt\cni\bin`, KubeProxy: v1alpha1.KubeProxyNone}
		},
		"custom-proxy": func(in *desired.Inputs) {
			*in.Config.Network.Custom = v1alpha1.CustomNetwork{CNIConfig: bridge, BinDir: `C:\Program Files\cni`, KubeProxy: v1alpha1.KubeProxyManaged, NetworkName: "l2"}
		},
		"cloud":    func(in *desired.Inputs) { in.Cluster.CloudProvider.External = true },
		"settings": func(in *desired.Inputs) { in.Settings = settings(t) },
		"logs":     func(in *desired.Inputs) { in.Config.Logs = v1alpha1.LogsSpec{Size: "1Gi", Age: "36h30m", Count: 12} },
		"layers":   func(in *desired.Inputs) { in.Config.Runtime.CompressedLayers = v1alpha1.CompressedLayersDiscard },
		"hyperv": func(in *desired.Inputs) {
			in.Config.RuntimeClasses.HyperV = &v1alpha1.HyperVSpec{Memory: "3Gi", Processors: 4}
		},
		// What hosts get on each platform, from a payload with every declared component.
		"platform-none": func(in *desired.Inputs) {
			in.Payload, in.Settings.TLS = declared(), new(tlsprofile.Profile{}.Server())
			in.Config.CSIProxy = v1alpha1.CSIProxyRun
		},
		"platform-aws": func(in *desired.Inputs) {
			in.Payload, in.Cluster.Network.Platform, in.Cluster.CloudProvider.External = declared(), platform.AWS, true
		},
		"platform-azure": func(in *desired.Inputs) {
			in.Payload, in.Cluster.Network.Platform, in.Cluster.CloudProvider.External = declared(), platform.Azure, true
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			in := inputs()
			change(&in)
			rendered, err := desired.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".yaml", marshal(t, rendered))
		})
	}
	expectNoStrayGolden(t, len(cases)+1) // one more for TestOn
}

// TestContainerdHasDiscardLayersOption checks containerd's source, because containerd ignores settings that it
// does not know.
func TestContainerdHasDiscardLayersOption(t *testing.T) {
	module := payloadtest.Source(t, "../../../payload/containerd", "github.com/containerd/containerd/v2")
	source, err := os.ReadFile(filepath.Join(module, "internal/cri/config/config.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), `toml:"discard_unpacked_layers"`) {
		t.Error("containerd's configuration lacks discard_unpacked_layers")
	}
}

func settings(t *testing.T) desired.Settings {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join("testdata", "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return desired.Settings{
		Proxy: proxy.Config{
			Object: "Proxy cluster", Path: "status", HTTPProxy: "http://user:password@proxy:3128", HTTPSProxy: "http://proxy:3128", NoProxy: ".example.com",
		},
		Networks: []string{"10.128.0.0/14"},
		Bundles:  []trust.Bundle{{Name: "ConfigMap trusted-ca, key ca-bundle.crt", PEM: string(authority) + "-----BEGIN CERTIFICATE-----\nbroken\n"}},
		Registries: mirrors.Input{
			Sets: []mirrors.Set{{Kind: "ImageTagMirrorSet", Name: "base", Field: "spec.imageTagMirrors", Entries: []mirrors.Entry{
				{Source: "mcr.microsoft.com", Mirrors: []mirrors.Mirror{{Location: "mirror.example:5000/microsoft"}}, For: mirrors.Tags},
				{Source: "quay.io/team", Mirrors: []mirrors.Mirror{{Location: "elsewhere.example/other"}}},
			}}},
			PullSecret: mirrors.PullSecret{Name: "openshift-config/pull-secret", DockerConfigJSON: []byte(`{"auths":{"mirror.example:5000":{"auth":"bWU6cGFzc3dvcmQ="}}}`)},
		},
		Now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// fileOf returns the content of a file of nodes, with Hyper-V isolation enabled.
func fileOf(t *testing.T, path string) string {
	t.Helper()
	in := inputs()
	in.Config.RuntimeClasses.HyperV = &v1alpha1.HyperVSpec{}
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(rendered.Node.Files, func(f desired.File) bool { return f.Path == path })
	if at < 0 {
		t.Fatalf("nodes have no %s", path)
	}
	return rendered.Node.Files[at].Content
}

func TestKubeletRunsNothingFromHostUsers(t *testing.T) {
	var got struct{ VolumePluginDir, StaticPodPath string }
	if err := json.Unmarshal([]byte(fileOf(t, `C:\k\kubelet.conf`)), &got); err != nil {
		t.Fatal(err)
	}
	for field, folder := range map[string]string{"volumePluginDir": got.VolumePluginDir, "staticPodPath": got.StaticPodPath} {
		if !strings.HasPrefix(folder, desired.Root+`\`) {
			t.Errorf("%s is %q, want a folder below %s, which only SYSTEM and Administrators may write", field, folder, desired.Root)
		}
	}
}

// TestPodAnnotationsDoNotReachShim requires both annotation lists of each runtime: containerd has its own default for
// a missing one.
func TestPodAnnotationsDoNotReachShim(t *testing.T) {
	empty := 0
	for line := range strings.Lines(fileOf(t, `C:\k\containerd\containerd_conf.toml`)) {
		key, value, _ := strings.Cut(line, "=")
		switch {
		case !strings.HasSuffix(strings.TrimSpace(key), "_annotations"):
		case strings.TrimSpace(value) == "[]":
			empty++
		default:
			t.Errorf("%q: annotations of pods reach the shim", strings.TrimSpace(line))
		}
	}
	if want := 2 * 2; empty != want {
		t.Errorf("%d lists of annotations are empty, want %d: those of containers and of pods, with process and with Hyper-V isolation", empty, want)
	}
}

// TestVirtualMachinesHaveLimits has values that the CRD rejects, too.
func TestVirtualMachinesHaveLimits(t *testing.T) {
	for want, specs := range map[string][]v1alpha1.HyperVSpec{
		"":                                  {{}, {Memory: "512Mi"}, {Memory: "1Ti", Processors: 64}, {Memory: "2000000000"}},
		"spec.runtimeClasses.hyperV.memory": {{Memory: "much"}, {Memory: "511Mi"}, {Memory: "-1Gi"}, {Memory: "2Ti"}, {Memory: strings.Repeat("9", 100)}},
		"hyperV.processors":                 {{Processors: -1}, {Processors: 65}},
	} {
		for _, spec := range specs {
			in := inputs()
			in.Config.RuntimeClasses.HyperV = &spec
			_, err := desired.Render(in)
			if want == "" && err != nil || want != "" && (!errors.Is(err, desired.ErrSettings) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%+v gives %v, want %q", spec, err, want)
			}
		}
	}
}

func secrets() desired.Secrets {
	return desired.Secrets{
		Version:     "42",
		Files:       []desired.File{{Path: `C:\var\lib\kubelet\config.json`, Content: "{}"}},
		Environment: map[string]string{"HTTP_PROXY": "http://user:password@proxy:3128"},
	}
}

// TestOn compares what one host gets with testdata/on-host.yaml.
func TestOn(t *testing.T) {
	in := inputs()
	in.Settings = settings(t)
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	node := rendered.Node
	node.SecretsVersion = secrets().Version
	before := marshal(t, node)
	local := desired.Local{Node: "win-1", NodeIP: "10.1.2.3", Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoExecute}}}
	on, err := node.On(local, secrets())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "on-host.yaml", marshal(t, on))
	if after := marshal(t, node); after != before {
		t.Errorf("the given declaration was changed: %s", cmp.Diff(before, after))
	}
	if strings.Contains(before, "password") || strings.Contains(before, "bWU6") {
		t.Error("a secret is in the declaration for all nodes")
	}
	if strings.Contains(marshal(t, on), "${") {
		t.Error("something was left open")
	}
	if _, err := node.On(local, desired.Secrets{}); err == nil {
		t.Error("a declaration was filled with other secrets")
	}
}

func marshal(t *testing.T, node any) string {
	t.Helper()
	text, err := yaml.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNodeRoundTrips(t *testing.T) {
	in := inputs()
	in.Settings = settings(t)
	for name, in := range map[string]desired.Inputs{"all": in, "little": inputs()} {
		rendered, err := desired.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		node := rendered.Node
		node.SecretsVersion = "42"
		data, err := node.Data()
		if err != nil {
			t.Fatal(err)
		}
		got, err := desired.FromData(data)
		if diff := cmp.Diff(node, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		for key := range data {
			broken := maps.Clone(data)
			broken[key] = "{"
			if _, err := desired.FromData(broken); key != "certificates" && (err == nil || !strings.Contains(err.Error(), key)) {
				t.Errorf("%s: a broken key %s causes error %v", name, key, err)
			}
		}
	}
}

func FuzzFromData(f *testing.F) {
	f.Add(`{"version":"1"}`, `[{"name":"kubelet"}]`, `[]`, `{"A":"b"}`)
	f.Fuzz(func(t *testing.T, node, services, files, environment string) {
		read, err := desired.FromData(map[string]string{"node": node, "services": services, "files": files, "environmentVars": environment, "watchedEnvironmentVars": "[]"})
		if err != nil {
			return
		}
		data, err := read.Data()
		if err != nil {
			t.Fatal(err)
		}
		again, err := desired.FromData(data)
		if diff := cmp.Diff(read, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// update rewrites the golden files: go test ./internal/shared/desired -update.
var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test ./... -update and read the difference", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), if it is meant run go test -update:\n%s", path, diff)
	}
}

func expectNoStrayGolden(t *testing.T, want int) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) != want {
		t.Errorf("testdata has %d golden files, the test has %d cases", len(files), want)
	}
}
