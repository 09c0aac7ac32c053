package desired_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// declared returns a payload with every declared component, for one minor version of Kubernetes.
func declared() payload.Manifest {
	var files []payload.File
	for _, c := range build.Components() {
		if c.Minor != "" && c.Minor != "1.36" {
			continue
		}
		files = append(files, payload.File{
			Path: c.Path, Component: c.Name, Version: "v1", Group: c.Group, SHA256: strings.Repeat("a", 64), Size: 3,
		})
	}
	return payload.New(files, payload.File{})
}

func mustRender(t *testing.T, change func(*desired.Inputs)) desired.Node {
	t.Helper()
	in := inputs()
	change(&in)
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return rendered.Node
}

func names(services []desired.Service) []string {
	var names []string
	for _, s := range services {
		names = append(names, s.Name)
	}
	return names
}

func TestServicesMatchPayloadPrograms(t *testing.T) {
	for name, test := range map[string]struct {
		without []string
		want    []string
	}{
		"all": {nil, []string{"containerd", "kubelet", "csi-proxy", "windows_exporter", api.WICDService}},
		"no csi-proxy": {
			[]string{"csi-proxy.exe"},
			[]string{"containerd", "kubelet", "windows_exporter", api.WICDService},
		},
		"no exporter": {
			[]string{"windows_exporter.exe"},
			[]string{"containerd", "kubelet", "csi-proxy", api.WICDService},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := declared()
			m.Files = slices.DeleteFunc(slices.Clone(m.Files), func(f payload.File) bool { return slices.Contains(test.without, f.Path) })
			node := mustRender(t, func(in *desired.Inputs) {
				in.Payload, in.Config.CSIProxy = payload.New(m.Files, m.Setup), v1alpha1.CSIProxyRun
			})
			if diff := cmp.Diff(test.want, names(node.Services)); diff != "" {
				t.Errorf("services (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCSIProxyRunsByDefaultOnOpenShiftOnly: elsewhere csi-proxy is a DaemonSet, and a node cannot run both.
func TestCSIProxyRunsByDefaultOnOpenShiftOnly(t *testing.T) {
	for _, test := range []struct {
		mode      v1alpha1.CSIProxy
		openShift bool
		runs      bool
	}{
		{v1alpha1.CSIProxyAuto, true, true}, {v1alpha1.CSIProxyAuto, false, false}, {"", true, true}, {"", false, false},
		{v1alpha1.CSIProxyRun, true, true}, {v1alpha1.CSIProxyRun, false, true}, {v1alpha1.CSIProxyOff, true, false}, {v1alpha1.CSIProxyOff, false, false},
	} {
		in := inputs()
		in.Payload, in.Config.CSIProxy, in.Cluster.Network.OpenShift = declared(), test.mode, test.openShift
		rendered, err := desired.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		if runs := slices.Contains(names(rendered.Node.Services), desired.CSIProxyService); runs != test.runs || len(rendered.Missing) > 0 {
			t.Errorf("%q, OpenShift %v: it runs: %v, missing are %v", test.mode, test.openShift, runs, rendered.Missing)
		}
	}
}

// TestMissingServiceIsReported: users must not have to search a node for a service that is not in the payload.
func TestMissingServiceIsReported(t *testing.T) {
	in := inputs()
	in.Config.CSIProxy = v1alpha1.CSIProxyRun
	rendered, err := desired.Render(in)
	if err != nil || len(rendered.Missing) != 1 || rendered.Missing[0].Name != "csi-proxy" || !strings.Contains(rendered.Missing[0].Effect, "CSI drivers") {
		t.Errorf("missing: %v (%v)", rendered.Missing, err)
	}
	in.Payload = declared()
	if rendered, err = desired.Render(in); err != nil || len(rendered.Missing) > 0 {
		t.Errorf("of a payload with everything, missing are %v (%v)", rendered.Missing, err)
	}
}

// TestEveryServiceLogRotates checks that each log rotates: WICD knows the file, its folder is created, and a process that rotates
// its log gets the limits.
func TestEveryServiceLogRotates(t *testing.T) {
	node := mustRender(t, func(in *desired.Inputs) {
		in.Payload = declared()
		in.Config.Logs = v1alpha1.LogsSpec{Size: "2Mi", Age: "2h", Count: 2}
	})
	for _, s := range node.Services {
		folder := desired.Logs + `\` + strings.TrimSuffix(s.Log.Path[strings.LastIndexByte(s.Log.Path, '\\')+1:], ".log")
		if !strings.Contains(s.Command, s.Log.Path) || !slices.Contains(node.Directories, folder) {
			t.Errorf("service %s has the log %q, which its command line lacks, or whose folder is not created", s.Name, s.Log.Path)
		}
		limits := strings.Contains(s.Command, `\kube-log-runner.exe -log-file=`+s.Log.Path+` -log-file-size=2097152 -log-file-age=2h0m0s `)
		if s.Log.Rotates != limits {
			t.Errorf("service %s rotates its log: %v, but its command has the limits: %v: %s", s.Name, s.Log.Rotates, limits, s.Command)
		}
	}
}

// TestSettingsDoNotChangeWICD: a running WICD changes everything except its own service, so it could never apply such settings.
func TestSettingsDoNotChangeWICD(t *testing.T) {
	of := func(change func(*desired.Inputs)) desired.Service {
		services := mustRender(t, change).Services
		return services[len(services)-1]
	}
	before := of(func(*desired.Inputs) {})
	after := of(func(in *desired.Inputs) {
		in.Settings = settings(t)
		in.Config.Logs = v1alpha1.LogsSpec{Size: "2Mi", Age: "2h", Count: 2}
		in.Config.Kubelet.MaxPods = 7
	})
	if before.Name != api.WICDService || !desired.SameDeclaration(before, after) {
		t.Errorf("WICD's service changed with the settings:\n%s", cmp.Diff(before, after))
	}
}

func TestInvalidLogLimitsAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		spec    v1alpha1.LogsSpec
		message string
	}{
		"no quantity":   {v1alpha1.LogsSpec{Size: "big"}, `spec.logs.size is "big"`},
		"negative size": {v1alpha1.LogsSpec{Size: "-1Mi"}, `spec.logs.size is "-1Mi"`},
		"no duration":   {v1alpha1.LogsSpec{Age: "7d"}, `spec.logs.age is "7d"`},
		"no time":       {v1alpha1.LogsSpec{Age: "0s"}, `spec.logs.age is "0s"`},
		"negative":      {v1alpha1.LogsSpec{Count: -1}, "spec.logs.count is -1"},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputs()
			in.Config.Logs = test.spec
			if _, err := desired.Render(in); err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v, want an error with %q", err, test.message)
			}
		})
	}
}

// TestKubeProxyAnswersPlatformHealthChecks: load balancers of GCP send health checks to the address of the Service, which kube-proxy forwards to
// the host's endpoint, if it finds it by its name. Windows Server 2019 rejects what kube-proxy needs for that.
func TestKubeProxyAnswersPlatformHealthChecks(t *testing.T) {
	for _, test := range []struct {
		platform string
		build    int
		want     any
	}{
		{"GCP", 20348, true}, {"GCP", 26100, true}, {"GCP", 17763, false}, {"GCP", 0, false}, {"AWS", 20348, nil}, {"", 20348, nil},
	} {
		for name, change := range map[string]func(*desired.Inputs){
			"overlay": func(in *desired.Inputs) {
				in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
				in.Cluster.Network.PodCIDRs = []string{"10.128.0.0/14"}
			},
			"bridge": func(in *desired.Inputs) {
				in.Config.Network.Custom.KubeProxy, in.Config.Network.Custom.NetworkName = v1alpha1.KubeProxyManaged, "l2"
			},
		} {
			declared := mustRender(t, func(in *desired.Inputs) { change(in); in.Cluster.Network.Platform = test.platform })
			on, err := declared.On(desired.Local{Node: "win-1", NodeIP: "192.0.2.1", Adapter: "Ethernet", Build: test.build}, desired.Secrets{})
			if err == nil {
				err = on.CheckBounds()
			}
			if err != nil {
				t.Fatal(err)
			}
			var file desired.File
			if on.Network != nil {
				file = on.Network.Files[1]
			} else {
				file = *on.UserNetwork.Proxy
			}
			content, err := desired.NetworkValues{Node: "win-1", Network: "l2"}.Fill(file)
			var got struct{ Winkernel map[string]any }
			if err == nil {
				err = json.Unmarshal([]byte(content), &got)
			}
			if err != nil || got.Winkernel["forwardHealthCheckVip"] != test.want {
				t.Errorf("%s on %q, build %d: %v, %v, want %v", name, test.platform, test.build, got.Winkernel, err, test.want)
			}
			var endpoint any // of a bridge of the user's, kube-proxy's default
			if name == "overlay" && test.want != nil {
				endpoint = on.Network.Endpoint
			}
			if got.Winkernel["rootHnsEndpointName"] != endpoint {
				t.Errorf("%s on %q: %v, want endpoint %v", name, test.platform, got.Winkernel, endpoint)
			}
		}
	}
}
