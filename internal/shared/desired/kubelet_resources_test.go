package desired_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

func resources(t *testing.T, spec v1alpha1.KubeletSpec) (desired.KubeletResources, desired.Node) {
	t.Helper()
	in := inputs()
	in.Config.Kubelet = spec
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return rendered.Node.KubeletResources(), rendered.Node
}

func TestReservationsMustFitMachine(t *testing.T) {
	type quantities = map[string]string
	const memory, node = "memory.available", "nodefs.available"
	machine := desired.Machine{Memory: 4 << 30, Disk: 100 << 30, Processors: 2, NUMANodes: 1, Build: 20348}
	best := v1alpha1.KubeletSpec{MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort}
	for name, test := range map[string]struct {
		spec     v1alpha1.KubeletSpec
		machine  desired.Machine
		contains []string
	}{
		"the defaults":                {v1alpha1.KubeletSpec{}, machine, nil},
		"nearly all of the memory":    {v1alpha1.KubeletSpec{KubeReserved: quantities{"memory": "1623195647"}}, machine, nil},
		"all of the memory":           {v1alpha1.KubeletSpec{KubeReserved: quantities{"memory": "1548Mi"}}, machine, []string{`kubeReserved "1548Mi"`, "reserves 4096 MiB", "has 4096 MiB"}},
		"the hard threshold is above": {v1alpha1.KubeletSpec{EvictionHard: quantities{memory: "3Gi"}}, machine, []string{"5120 MiB", "4096 MiB", `evictionHard "3Gi"`}},
		"a share that is above":       {v1alpha1.KubeletSpec{EvictionHard: quantities{memory: "51%"}}, machine, []string{`evictionHard "51%"`, "4096 MiB"}},
		"a share":                     {v1alpha1.KubeletSpec{EvictionHard: quantities{memory: "49%"}}, machine, nil},
		"nearly all processors":       {v1alpha1.KubeletSpec{KubeReserved: quantities{"cpu": "1499m"}}, machine, nil},
		"all processors":              {v1alpha1.KubeletSpec{KubeReserved: quantities{"cpu": "1500m"}}, machine, []string{"reserves 2 of cpu", "has 2"}},
		"more processors":             {v1alpha1.KubeletSpec{KubeReserved: quantities{"cpu": "1501m"}}, machine, []string{"2001m", "has 2"}},
		"nearly all of the drive":     {v1alpha1.KubeletSpec{KubeReserved: quantities{"ephemeral-storage": "88Gi"}}, machine, nil},
		"all of the drive":            {v1alpha1.KubeletSpec{KubeReserved: quantities{"ephemeral-storage": "89Gi"}}, machine, []string{`kubeReserved "89Gi"`, `evictionHard "10%"`, "has 102400 MiB"}},
		"a drive without a threshold": {v1alpha1.KubeletSpec{
			EvictionHard: quantities{node: "0%"}, KubeReserved: quantities{"ephemeral-storage": "98Gi"},
		}, machine, nil},
		"nothing is known":    {v1alpha1.KubeletSpec{KubeReserved: quantities{"cpu": "99", "memory": "1Ti", "ephemeral-storage": "1Pi"}}, desired.Machine{}, nil},
		"a manager of memory": {best, machine, nil},
		"an old Windows":      {best, desired.Machine{Build: 17763, NUMANodes: 1}, []string{"Windows Server 2019", "Windows Server 2022"}},
		"a NUMA node that is missing": {v1alpha1.KubeletSpec{
			MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, ReservedMemory: []v1alpha1.MemoryReservation{{Memory: "1Gi"}, {NUMANode: 1, Memory: "1524Mi"}},
		}, machine, []string{"NUMA node 1", "has 1"}},
		"too many NUMA nodes": {v1alpha1.KubeletSpec{TopologyManagerPolicy: v1alpha1.TopologyManagerRestricted}, desired.Machine{NUMANodes: 9}, []string{"has 9 NUMA nodes", "at most 8"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := resources(t, test.spec)
			err := r.Check(test.machine)
			if (err == nil) != (len(test.contains) == 0) {
				t.Fatalf("Check() = %v", err)
			}
			for _, want := range test.contains {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Check() = %v, want %s", err, want)
				}
			}
		})
	}
}

// TestStateDependsOnDividedResources has changes with which a kubelet would reject its former state files, and changes with
// which it would not.
func TestStateDependsOnDividedResources(t *testing.T) {
	got := v1alpha1.KubeletSpec{CPUManagerPolicy: v1alpha1.CPUManagerStatic, MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort}
	before, _ := resources(t, got)
	for name, test := range map[string]struct {
		change func(*v1alpha1.KubeletSpec)
		same   bool
	}{
		"pods":                {func(s *v1alpha1.KubeletSpec) { s.MaxPods = 9 }, true},
		"storage":             {func(s *v1alpha1.KubeletSpec) { s.KubeReserved = map[string]string{"ephemeral-storage": "1Gi"} }, true},
		"a threshold of disk": {func(s *v1alpha1.KubeletSpec) { s.EvictionHard = map[string]string{"nodefs.available": "5%"} }, true},
		"a policy":            {func(s *v1alpha1.KubeletSpec) { s.CPUManagerPolicy = v1alpha1.CPUManagerNone }, false},
		"memory":              {func(s *v1alpha1.KubeletSpec) { s.KubeReserved = map[string]string{"memory": "1Gi"} }, false},
		"processors":          {func(s *v1alpha1.KubeletSpec) { s.SystemReserved = map[string]string{"cpu": "2"} }, false},
		"a threshold":         {func(s *v1alpha1.KubeletSpec) { s.EvictionHard = map[string]string{"memory.available": "1Gi"} }, false},
		"topology":            {func(s *v1alpha1.KubeletSpec) { s.TopologyManagerPolicy = v1alpha1.TopologyManagerRestricted }, false},
	} {
		spec := got
		test.change(&spec)
		if next, _ := resources(t, spec); (next.State() == before.State()) != test.same {
			t.Errorf("%s: state %s, then %s", name, before.State(), next.State())
		}
	}
	if r, _ := resources(t, v1alpha1.KubeletSpec{KubeReserved: map[string]string{"cpu": "1"}, MemoryManagerPolicy: v1alpha1.MemoryManagerNone}); r.State() != "" {
		t.Errorf("without managers, there is state %s", r.State())
	}
}

// TestHostKeepsPreviousResources expects none of the resources that are held back, and everything else as declared.
func TestHostKeepsPreviousResources(t *testing.T) {
	former, before := resources(t, v1alpha1.KubeletSpec{KubeReserved: map[string]string{"cpu": "1"}})
	_, next := resources(t, v1alpha1.KubeletSpec{MaxPods: 9, CPUManagerPolicy: v1alpha1.CPUManagerStatic})
	_, want := resources(t, v1alpha1.KubeletSpec{MaxPods: 9, KubeReserved: map[string]string{"cpu": "1"}})
	plain := desired.Local{Node: "win-1", NodeIP: "192.0.2.10"}
	local := plain
	local.Kubelet = &desired.HeldKubelet{KubeletResources: former}
	for name, pair := range map[string][2]desired.Node{"held back": {next, want}, "the same": {before, before}} {
		got, errGot := pair[0].On(local, desired.Secrets{})
		wanted, errWant := pair[1].On(plain, desired.Secrets{})
		if errGot != nil || errWant != nil || got.Files[0].Content != wanted.Files[0].Content {
			t.Errorf("%s: %v, %v, %s\nwant %s", name, errGot, errWant, got.Files[0].Content, wanted.Files[0].Content)
		}
		if err := got.CheckBounds(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKubeletManagerAssumptions compares assumptions about the kubelet's managers with its source.
func TestKubeletManagerAssumptions(t *testing.T) {
	for minor, dir := range payloadtest.Kubernetes(t, "../../..") {
		for file, want := range map[string]string{
			"pkg/features/kube_features.go":                      "WindowsCPUAndMemoryAffinity: {\n\t\t{Version: version.MustParse(\"1.32\"), Default: false, PreRelease: featuregate.Alpha},\n\t},",
			"pkg/kubelet/cm/cpumanager/cpu_manager.go":           `= "cpu_manager_state"`,
			"pkg/kubelet/cm/memorymanager/memory_manager.go":     `= "memory_manager_state"`,
			"pkg/kubelet/cm/memorymanager/policy_best_effort.go": `= "BestEffort"`,
			"pkg/kubelet/cm/topologymanager/topology_manager.go": "defaultMaxAllowableNUMANodes = 8",
			"pkg/kubelet/apis/config/validation/validation.go":   "case kubeletconfig.SingleNumaNodeTopologyManagerPolicy:",
			"pkg/kubelet/cm/container_manager_windows.go":        "kubefeatures.WindowsCPUAndMemoryAffinity",
		} {
			source, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || !strings.Contains(string(source), want) {
				t.Errorf("%s of Kubernetes %s has no %s any more: %v", file, minor, want, err)
			}
		}
	}
}
