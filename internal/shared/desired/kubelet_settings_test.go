package desired_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

// TestKubeletSettingsThatContradict has values that the schema of WindowsConfig cannot check, and, for clusters with an older schema, values
// with which a kubelet would not start.
func TestKubeletSettingsThatContradict(t *testing.T) {
	type quantities = map[string]string
	const memory, node = "memory.available", "nodefs.available"
	for name, test := range map[string]struct {
		spec     v1alpha1.KubeletSpec
		contains []string // parts of the error; none if the spec is valid
	}{
		"nothing": {},
		"all": {spec: v1alpha1.KubeletSpec{
			KubeReserved: quantities{"memory": "1Gi"}, EvictionHard: quantities{memory: "1Gi", node: "0%"}, EvictionSoft: quantities{memory: "2Gi", node: "15%"},
			EvictionSoftGracePeriod: quantities{memory: "90s", node: "5m"}, EvictionMinimumReclaim: quantities{memory: "500Mi"}, ContainerLogMaxSize: "10Mi",
		}},
		"soft in percent beside hard in bytes": {v1alpha1.KubeletSpec{EvictionSoft: quantities{memory: "5%"}, EvictionSoftGracePeriod: quantities{memory: "90s"}},
			[]string{`evictionSoft[memory.available] is "5%"`, "the hard threshold is 500Mi"}},
		"soft in bytes beside hard in percent": {v1alpha1.KubeletSpec{EvictionSoft: quantities{node: "1Gi"}, EvictionSoftGracePeriod: quantities{node: "5m"}},
			[]string{`evictionSoft[nodefs.available] is "1Gi"`, "the hard threshold is 10%"}},
		"soft in bytes beside hard that is off": {spec: v1alpha1.KubeletSpec{
			EvictionHard: quantities{node: "0%"}, EvictionSoft: quantities{node: "1Gi"}, EvictionSoftGracePeriod: quantities{node: "5m"},
		}},
		"soft that is off beside hard in bytes": {spec: v1alpha1.KubeletSpec{EvictionSoft: quantities{memory: "0%"}, EvictionSoftGracePeriod: quantities{memory: "5m"}}},
		"soft below hard": {v1alpha1.KubeletSpec{EvictionHard: quantities{memory: "1Gi"}, EvictionSoft: quantities{memory: "900Mi"}, EvictionSoftGracePeriod: quantities{memory: "90s"}},
			[]string{`evictionSoft[memory.available] is "900Mi"`, "1Gi"}},
		"soft below the kubelet's own hard": {v1alpha1.KubeletSpec{EvictionSoft: quantities{memory: "500Mi"}, EvictionSoftGracePeriod: quantities{memory: "90s"}},
			[]string{`evictionSoft[memory.available] is "500Mi"`, "which is 500Mi"}},
		"soft below the kubelet's own hard, in percent": {v1alpha1.KubeletSpec{EvictionSoft: quantities{node: "9%"}, EvictionSoftGracePeriod: quantities{node: "90s"}},
			[]string{`"9%"`, "which is 10%"}},
		"soft without time":               {v1alpha1.KubeletSpec{EvictionSoft: quantities{memory: "1Gi"}}, []string{"set evictionSoftGracePeriod[memory.available]"}},
		"time without soft":               {v1alpha1.KubeletSpec{EvictionSoftGracePeriod: quantities{memory: "1m"}}, []string{"set evictionSoft[memory.available]"}},
		"no time":                         {v1alpha1.KubeletSpec{EvictionSoft: quantities{memory: "1Gi"}, EvictionSoftGracePeriod: quantities{memory: "soon"}}, []string{`"soon"`, "90s"}},
		"hard of nothing":                 {v1alpha1.KubeletSpec{EvictionHard: quantities{memory: "0"}}, []string{`evictionHard[memory.available] is "0"`, "above 0"}},
		"hard below nothing":              {v1alpha1.KubeletSpec{EvictionHard: quantities{memory: "-1Gi"}}, []string{`"-1Gi"`}},
		"hard of too much":                {v1alpha1.KubeletSpec{EvictionHard: quantities{node: "120%"}}, []string{`"120%"`, "up to 100%"}},
		"hard that is always crossed":     {v1alpha1.KubeletSpec{EvictionHard: quantities{memory: "100.0%"}}, []string{`evictionHard[memory.available] is "100.0%"`}},
		"hard that is off in other words": {v1alpha1.KubeletSpec{EvictionHard: quantities{memory: "0.0%"}}, []string{`evictionHard[memory.available] is "0.0%"`}},
		"a reclaim of nothing":            {v1alpha1.KubeletSpec{EvictionMinimumReclaim: quantities{node: "0%"}}, []string{`evictionMinimumReclaim[nodefs.available] is "0%"`}},
		"hard that is no number":          {v1alpha1.KubeletSpec{EvictionHard: quantities{node: "NaN%"}}, []string{`"NaN%"`}},
		"an unknown signal":               {v1alpha1.KubeletSpec{EvictionMinimumReclaim: quantities{"pid.available": "1"}}, []string{"evictionMinimumReclaim", "pid.available"}},
		"reserved below nothing":          {v1alpha1.KubeletSpec{KubeReserved: quantities{"cpu": "-1"}}, []string{`kubeReserved[cpu] is "-1"`}},
		"managers of everything": {spec: v1alpha1.KubeletSpec{
			CPUManagerPolicy: v1alpha1.CPUManagerStatic, MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort,
			ReservedMemory:        []v1alpha1.MemoryReservation{{NUMANode: 0, Memory: "1.5Gi"}, {NUMANode: 1, Memory: "1012Mi"}},
			TopologyManagerPolicy: v1alpha1.TopologyManagerRestricted, TopologyManagerScope: v1alpha1.TopologyManagerPod,
		}},
		"managers that are off": {spec: v1alpha1.KubeletSpec{
			CPUManagerPolicy: v1alpha1.CPUManagerNone, SystemReserved: quantities{"cpu": "0"}, MemoryManagerPolicy: v1alpha1.MemoryManagerNone, EvictionHard: quantities{memory: "5%"},
		}},
		"the threshold is off": {spec: v1alpha1.KubeletSpec{
			MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, EvictionHard: quantities{memory: "0%"}, ReservedMemory: []v1alpha1.MemoryReservation{{Memory: "2Gi"}},
		}},
		"static without reserved processors": {v1alpha1.KubeletSpec{CPUManagerPolicy: v1alpha1.CPUManagerStatic, SystemReserved: quantities{"cpu": "0"}},
			[]string{`cpuManagerPolicy is "static"`, `systemReserved[cpu] is "0"`}},
		"reserved memory without a manager": {v1alpha1.KubeletSpec{ReservedMemory: []v1alpha1.MemoryReservation{{Memory: "1Gi"}}}, []string{`reservedMemory is "1Gi"`, "BestEffort"}},
		"a scope without a policy":          {v1alpha1.KubeletSpec{TopologyManagerScope: v1alpha1.TopologyManagerPod}, []string{`topologyManagerScope is "pod"`, "topologyManagerPolicy"}},
		"a manager of memory and a share": {v1alpha1.KubeletSpec{MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, EvictionHard: quantities{memory: "5%"}},
			[]string{`memoryManagerPolicy is "BestEffort"`, "is 5%", "500Mi"}},
		"nothing reserved for a manager of memory": {v1alpha1.KubeletSpec{
			MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, EvictionHard: quantities{memory: "0%"}, SystemReserved: quantities{"memory": "0"},
		}, []string{"requires reserved memory"}},
		"other reserved memory": {v1alpha1.KubeletSpec{MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, ReservedMemory: []v1alpha1.MemoryReservation{{Memory: "2Gi"}}},
			[]string{`reservedMemory is "2Gi"`, "2548Mi", `systemReserved[memory] "2Gi"`}},
		"reserved memory of nothing": {v1alpha1.KubeletSpec{MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, ReservedMemory: []v1alpha1.MemoryReservation{{Memory: "0"}}},
			[]string{`reservedMemory[numaNode=0] is "0"`}},
		"a NUMA node twice": {v1alpha1.KubeletSpec{
			MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, ReservedMemory: []v1alpha1.MemoryReservation{{Memory: "2Gi"}, {Memory: "500Mi"}},
		}, []string{`reservedMemory[numaNode=0] is "500Mi"`, "once"}},
		"a log of no size": {v1alpha1.KubeletSpec{ContainerLogMaxSize: "much"}, []string{`containerLogMaxSize is "much"`}},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputs()
			in.Config.Kubelet = test.spec
			_, err := desired.Render(in)
			if len(test.contains) == 0 && err != nil || len(test.contains) > 0 && !errors.Is(err, desired.ErrSettings) {
				t.Fatalf("Render() = %v", err)
			}
			for _, want := range test.contains {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Render() = %v, want %s", err, want)
				}
			}
		})
	}
}

// TestKubeletDefaultThresholds compares the documented and checked defaults of the kubelet with its source.
func TestKubeletDefaultThresholds(t *testing.T) {
	for minor, dir := range payloadtest.Kubernetes(t, "../../..") {
		source, err := os.ReadFile(filepath.Join(dir, "pkg/kubelet/eviction/defaults_windows.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(source), "DefaultEvictionHard = map[string]string{")
		table, _, _ = strings.Cut(table, "}")
		got := map[string]string{}
		for line := range strings.Lines(table) {
			if name, value, isEntry := strings.Cut(strings.TrimSpace(line), ":"); isEntry {
				got[strings.Trim(name, `"`)] = strings.Trim(strings.TrimSpace(value), `",`)
			}
		}
		want := desired.DefaultEvictionHard()
		if len(got) != len(want) {
			t.Errorf("the kubelet of %s has the thresholds %v, want %v", minor, got, want)
		}
		for signal, value := range want {
			if got[signal] != value {
				t.Errorf("%s of the kubelet of %s is %q, want %q", signal, minor, got[signal], value)
			}
		}
	}
}
