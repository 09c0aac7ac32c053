package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

// commandOf returns the command line of a service; empty if the node has no such service.
func commandOf(n desired.Node, service string) string {
	i := slices.IndexFunc(n.Services, func(s desired.Service) bool { return s.Name == service })
	if i < 0 {
		return ""
	}
	return n.Services[i].Command
}

func TestVerbosityMapsToServiceLevels(t *testing.T) {
	overlay := func(in *desired.Inputs) { *in = onOpenShift() }
	flannel := func(in *desired.Inputs) { *in = withFlannel(goodNetConf) }
	azure := func(in *desired.Inputs) {
		in.Cluster.Network.Platform, in.Cluster.CloudProvider.External = platform.Azure, true
	}
	none := func(*desired.Inputs) {}
	for service, test := range map[string]struct {
		network              func(*desired.Inputs)
		normal, debug, trace string
	}{
		"kubelet":             {none, " --v=2 ", " --v=4 ", " --v=6 "},
		"containerd":          {none, " --log-level info ", " --log-level debug ", " --log-level trace "},
		"windows_exporter":    {none, " --log.level info ", " --log.level debug ", " --log.level debug "},
		"csi-proxy":           {none, " --v=2", " --v=4", " --v=6"},
		"kube-proxy":          {overlay, " --v=2", " --v=4", " --v=6"},
		"hybrid-overlay-node": {overlay, "", " --loglevel 5", " --loglevel 5"},
		"flanneld":            {flannel, "", " --v=4", " --v=6"},
		"cloud-node-manager":  {azure, " --v=2", " --v=4", " --v=6"},
	} {
		var before desired.Node
		for v, want := range map[v1alpha1.LogVerbosity]string{"": test.normal, v1alpha1.LogNormal: test.normal, v1alpha1.LogDebug: test.debug, v1alpha1.LogTrace: test.trace} {
			set := func(v v1alpha1.LogVerbosity) desired.Node {
				return mustRender(t, func(in *desired.Inputs) {
					test.network(in)
					in.Payload, in.Config.CSIProxy = declared(), v1alpha1.CSIProxyRun
					in.Config.Logs.Verbosity = map[string]v1alpha1.LogVerbosity{service: v, "another": v1alpha1.LogTrace}
				})
			}
			before = set(v1alpha1.LogNormal)
			after := set(v)
			command := commandOf(after, service)
			if command == "" || !strings.Contains(command+" ", want) || want == "" && (strings.Contains(command, "--v=") || strings.Contains(command, "--loglevel")) {
				t.Errorf("%s of service %s: the command is %q, want %q in it", v, service, command, want)
			}
			if d := desired.DisruptionOf(before, after); d != v1alpha1.DisruptionNone && d != v1alpha1.DisruptionRestart {
				t.Errorf("%s of service %s: the disruption is %s", v, service, d)
			}
		}
	}
}

func TestKubeletPriorityClass(t *testing.T) {
	for class, want := range map[string]string{"": "ABOVE_NORMAL_PRIORITY_CLASS", "HIGH_PRIORITY_CLASS": "HIGH_PRIORITY_CLASS"} {
		node := mustRender(t, func(in *desired.Inputs) { in.Config.Kubelet.PriorityClass = class })
		if !strings.Contains(commandOf(node, "kubelet"), " --windows-priorityclass="+want+" ") {
			t.Errorf("with %q the command is %q", class, commandOf(node, "kubelet"))
		}
	}
	for _, change := range []func(*desired.Inputs){
		func(in *desired.Inputs) { in.Config.Kubelet.PriorityClass = "HIGH --windows-service=false" },
		func(in *desired.Inputs) { in.Config.Kubelet.ShutdownGracePeriod = "soon" },
		func(in *desired.Inputs) { in.Config.Taint = "os=linux:NoSchedule" },
	} {
		in := inputs()
		change(&in)
		if _, err := desired.Render(in); err == nil || !strings.Contains(err.Error(), `WindowsConfig "cluster": spec.`) {
			t.Errorf("Render() = %v", err)
		}
	}
}

func TestNodesRegisterWithConfiguredTaint(t *testing.T) {
	for taint, want := range map[v1alpha1.NodeTaint]string{"": "Windows", v1alpha1.TaintWindows: "Windows", v1alpha1.TaintLowerCase: "windows"} {
		node := mustRender(t, func(in *desired.Inputs) { in.Config.Taint = taint })
		on, err := node.On(desired.Local{Node: "win-1", NodeIP: "10.1.2.3"}, desired.Secrets{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(on.Files, func(f desired.File) bool {
			return strings.Contains(f.Content, `"registerWithTaints": [{"key":"os","value":"`+want+`","effect":"NoSchedule"}]`)
		}) {
			t.Errorf("with taint %q, no file taints the node with %s", taint, want)
		}
		if err := on.CheckBounds(); err != nil {
			t.Error(err)
		}
	}
}

func TestExistingNodesGetConfiguredTaint(t *testing.T) {
	taint := func(value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: "os", Value: value, Effect: effect}
	}
	other := corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	upper, lower := taint("Windows", corev1.TaintEffectNoSchedule), taint("windows", corev1.TaintEffectNoSchedule)
	for name, test := range map[string]struct {
		has  []corev1.Taint
		want v1alpha1.NodeTaint
		gets []corev1.Taint // nil if nothing changes
	}{
		"as it is":           {[]corev1.Taint{other, upper}, "", nil},
		"to lower case":      {[]corev1.Taint{other, upper}, v1alpha1.TaintLowerCase, []corev1.Taint{other, lower}},
		"and back":           {[]corev1.Taint{lower, other}, v1alpha1.TaintWindows, []corev1.Taint{upper, other}},
		"removed by a user":  {[]corev1.Taint{other}, v1alpha1.TaintLowerCase, nil},
		"of another program": {[]corev1.Taint{taint("other", corev1.TaintEffectNoSchedule), taint("Windows", corev1.TaintEffectNoExecute)}, v1alpha1.TaintLowerCase, nil},
		"none":               {nil, v1alpha1.TaintLowerCase, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(test.has)
			got, changed := desired.Taints(test.has, test.want)
			want := test.gets
			if want == nil {
				want = before
			}
			if diff := cmp.Diff(want, got); diff != "" || changed != (test.gets != nil) {
				t.Errorf("changed: %v (-want +got):\n%s", changed, diff)
			}
			if diff := cmp.Diff(before, test.has); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}
