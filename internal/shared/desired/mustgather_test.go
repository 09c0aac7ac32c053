package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

// mustGatherPaths are the files that OpenShift's must-gather collects from each Windows node, as paths below C:\var\log
// (openshift/must-gather, collection-scripts/gather_windows_node_logs).
func mustGatherPaths() []string {
	return []string{
		"kube-proxy/kube-proxy.log", "hybrid-overlay/hybrid-overlay.log", "kubelet/kubelet.log", "containerd/containerd.log",
		"wicd/windows-instance-config-daemon.exe.INFO", "wicd/windows-instance-config-daemon.exe.ERROR",
		"wicd/windows-instance-config-daemon.exe.WARNING", "csi-proxy/csi-proxy.log",
	}
}

func TestLogsHaveMustGatherNames(t *testing.T) {
	in := inputs()
	in.Config.CSIProxy = v1alpha1.CSIProxyRun
	in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
	in.Cluster.Network = desired.ClusterNetwork{PodCIDRs: []string{"10.128.0.0/14"}, HybridCIDRs: []string{"10.132.0.0/14"},
		HostPrefixes: map[string]int{"10.132.0.0/14": 23}}
	csiProxy := payload.File{Path: "csi-proxy.exe", Component: "csi-proxy", Version: "v1", Group: payload.Base, SHA256: strings.Repeat("b", 64), Size: 3}
	in.Payload = payload.New(append(in.Payload.Files, csiProxy), payload.File{})
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, s := range rendered.Node.Services {
		have = append(have, s.Log.Path)
		if s.Log.Path == desired.WICDLog {
			for _, level := range []string{"INFO", "WARNING", "ERROR"} { // internal/node/daemon/logrotate writes them
				have = append(have, desired.WICDLogByLevel+level)
			}
		}
	}
	for _, path := range mustGatherPaths() {
		if want := desired.Logs + `\` + strings.ReplaceAll(path, "/", `\`); !slices.Contains(have, want) {
			t.Errorf("no service writes %s; the logs are %q", want, have)
		}
	}
}
