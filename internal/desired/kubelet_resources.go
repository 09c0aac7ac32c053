package desired

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// affinityGate is the feature gate without which the kubelet's managers of processors, memory and topology do nothing on Windows
// (pkg/kubelet/cm/container_manager_windows.go). It is alpha in Kubernetes 1.32 to 1.37.
const affinityGate = "WindowsCPUAndMemoryAffinity"

// mostTopologyNodes is how many NUMA nodes a machine may have for a topology manager (pkg/kubelet/cm/topologymanager).
const mostTopologyNodes = 8

// KubeletResources is what the kubelet's configuration says of how a machine is divided, as the kubelet reads it.
type KubeletResources struct {
	SystemReserved        map[string]string   `json:"systemReserved,omitempty"`
	KubeReserved          map[string]string   `json:"kubeReserved,omitempty"`
	EvictionHard          map[string]string   `json:"evictionHard,omitempty"`
	CPUManagerPolicy      string              `json:"cpuManagerPolicy,omitempty"`
	MemoryManagerPolicy   string              `json:"memoryManagerPolicy,omitempty"`
	ReservedMemory        []memoryReservation `json:"reservedMemory,omitempty"`
	TopologyManagerPolicy string              `json:"topologyManagerPolicy,omitempty"`
	TopologyManagerScope  string              `json:"topologyManagerScope,omitempty"`
}

// memoryReservation is what of systemReserved, kubeReserved and the hard threshold is of one NUMA node.
type memoryReservation struct {
	NUMANode int32             `json:"numaNode"`
	Limits   map[string]string `json:"limits"`
}

// HeldKubelet is how the kubelet of a host goes on while it does not have what the declaration says of its resources.
type HeldKubelet struct {
	KubeletResources
	// Boot names the start of Windows at which it was held back: it takes effect with the next one.
	Boot string `json:"boot"`
	// Unsuitable is why the machine cannot have it; empty where it waits for a restart of Windows.
	Unsuitable string `json:"unsuitable,omitempty"`
}

// WaitsFor tells whether only a restart of Windows is missing, since the start that boot names.
func (h *HeldKubelet) WaitsFor(boot string) bool {
	return h != nil && h.Unsuitable == "" && h.Boot == boot
}

// resourcesOf is what the kubelet's configuration says of resources where WindowsConfig has a spec. What needs the feature gate is there only
// when something of it is in use.
func resourcesOf(spec v1alpha1.KubeletSpec) KubeletResources {
	r := KubeletResources{
		SystemReserved: map[string]string{"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"}, KubeReserved: spec.KubeReserved, EvictionHard: spec.EvictionHard,
	}
	maps.Copy(r.SystemReserved, spec.SystemReserved)
	r.CPUManagerPolicy, r.MemoryManagerPolicy = string(spec.CPUManagerPolicy), string(spec.MemoryManagerPolicy)
	r.TopologyManagerPolicy, r.TopologyManagerScope = string(spec.TopologyManagerPolicy), string(spec.TopologyManagerScope)
	if !r.isManaged() {
		r.CPUManagerPolicy, r.MemoryManagerPolicy, r.TopologyManagerPolicy, r.TopologyManagerScope = "", "", "", ""
	}
	if r.hasMemoryManager() {
		r.ReservedMemory = reservedMemory(spec, r.memory())
	}
	return r
}

// reservedMemory is what is reserved of each NUMA node: all of the first one unless the spec says otherwise. The kubelet refuses quantities
// that are no whole number when it has read them, such as 1.5Gi, so that they are written in bytes.
func reservedMemory(spec v1alpha1.KubeletSpec, total resource.Quantity) (all []memoryReservation) {
	of := func(node int32, q resource.Quantity) memoryReservation {
		return memoryReservation{NUMANode: node, Limits: map[string]string{"memory": strconv.FormatInt(q.Value(), 10)}}
	}
	for _, one := range spec.ReservedMemory {
		q, _ := resource.ParseQuantity(one.Memory) // checked
		all = append(all, of(one.NUMANode, q))
	}
	if len(all) == 0 {
		all = append(all, of(0, total))
	}
	return all
}

func (r KubeletResources) hasMemoryManager() bool {
	return r.MemoryManagerPolicy == string(v1alpha1.MemoryManagerBestEffort)
}

// isManaged tells whether the kubelet gives pods processors or memory of their own, or looks at the topology of the machine.
func (r KubeletResources) isManaged() bool {
	hasTopology := r.TopologyManagerPolicy != "" && r.TopologyManagerPolicy != string(v1alpha1.TopologyManagerNone)
	return r.CPUManagerPolicy == string(v1alpha1.CPUManagerStatic) || r.hasMemoryManager() || hasTopology
}

// memory is what is reserved of the memory, where that does not depend on the machine.
func (r KubeletResources) memory() resource.Quantity {
	total := sum(r.SystemReserved["memory"], r.KubeReserved["memory"])
	if t, err := parseThreshold(r.hardMemory()); err == nil && !t.isShare {
		total.Add(sum(r.hardMemory()))
	}
	return total
}

// hardMemory is the hard threshold of memory, which the kubelet reserves as well.
func (r KubeletResources) hardMemory() string {
	if own := r.EvictionHard[memoryAvailable]; own != "" {
		return own
	}
	return DefaultEvictionHard()[memoryAvailable]
}

// sum adds quantities; what is none counts as nothing.
func sum(texts ...string) (total resource.Quantity) {
	for _, text := range texts {
		if q, err := resource.ParseQuantity(text); err == nil {
			total.Add(q)
		}
	}
	return total
}

// State is what the kubelet's state files of processors and memory depend on; empty where it keeps none. The kubelet does not start with those
// of another state (policy_static.go of pkg/kubelet/cm/cpumanager and memorymanager).
func (r KubeletResources) State() string {
	if !r.isManaged() {
		return ""
	}
	r.EvictionHard = map[string]string{memoryAvailable: r.hardMemory()}
	r.SystemReserved, r.KubeReserved = withoutStorage(r.SystemReserved), withoutStorage(r.KubeReserved)
	b, _ := json.Marshal(r) // texts and numbers only
	return string(b)
}

func withoutStorage(reserved map[string]string) map[string]string {
	reserved = maps.Clone(reserved)
	delete(reserved, "ephemeral-storage")
	return reserved
}

// Machine is what a host has. What is 0 is not known.
type Machine struct {
	Memory                uint64
	Processors, NUMANodes int
	Build                 int
}

// Check says why a machine cannot be divided so: the kubelet would not start, or would leave nothing for pods.
func (r KubeletResources) Check(m Machine) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf(`WindowsConfig "cluster": spec.kubelet `+format, args...)
	}
	memory := r.memory()
	if t, err := parseThreshold(r.hardMemory()); err == nil && t.isShare && !t.isOff() {
		memory.Add(*resource.NewQuantity(int64(float64(m.Memory)*t.amount/100), resource.BinarySI))
	}
	if has := resource.NewQuantity(int64(min(m.Memory, 1<<62)), resource.BinarySI); m.Memory > 0 && memory.Cmp(*has) > 0 {
		return refuse("reserves %s of memory (systemReserved %.32q, kubeReserved %.32q, evictionHard %.32q), and this machine has %s; reserve less than the smallest host has",
			megabytes(memory), r.SystemReserved["memory"], r.KubeReserved["memory"], r.hardMemory(), megabytes(*has))
	}
	cpu := sum(r.SystemReserved["cpu"], r.KubeReserved["cpu"])
	if has := resource.NewQuantity(int64(m.Processors), resource.DecimalSI); m.Processors > 0 && cpu.Cmp(*has) > 0 {
		return refuse("reserves %s of processors (systemReserved %.32q, kubeReserved %.32q), and this machine has %s; reserve less than the smallest host has",
			cpu.String(), r.SystemReserved["cpu"], r.KubeReserved["cpu"], has)
	}
	missing := slices.IndexFunc(r.ReservedMemory, func(one memoryReservation) bool { return int(one.NUMANode) >= m.NUMANodes })
	switch {
	case r.hasMemoryManager() && m.Build > 0 && m.Build <= windows2019:
		return refuse("has memoryManagerPolicy %s, and this machine has Windows Server 2019 (build %d); kubelets need Windows Server 2022 for it", r.MemoryManagerPolicy, m.Build)
	case m.NUMANodes > 0 && missing >= 0:
		return refuse("reserves memory of NUMA node %d in reservedMemory, and this machine has %d, of which the first is 0; name nodes that each host has",
			r.ReservedMemory[missing].NUMANode, m.NUMANodes)
	case r.isManaged() && m.NUMANodes > mostTopologyNodes && r.TopologyManagerPolicy != "" && r.TopologyManagerPolicy != string(v1alpha1.TopologyManagerNone):
		return refuse("has topologyManagerPolicy %s, and this machine has %d NUMA nodes; kubelets take it with at most %d", r.TopologyManagerPolicy, m.NUMANodes, mostTopologyNodes)
	}
	return nil
}

// megabytes is for people: quantities of bytes are long.
func megabytes(q resource.Quantity) string { return fmt.Sprintf("%d MiB", q.Value()>>20) }

// KubeletResources are those that a declaration says, or nothing where it says none.
func (n Node) KubeletResources() (r KubeletResources) {
	for _, f := range n.Files {
		if f.Path == kubeletConfig {
			_ = json.Unmarshal([]byte(f.Content), &r) // what the kubelet cannot read is the kubelet's to tell
		}
	}
	return r
}

// with is the kubelet's configuration with other resources. One that cannot be read stays.
func (r KubeletResources) with(content string) string {
	var c kubeletConfiguration
	if err := json.Unmarshal([]byte(content), &c); err != nil {
		return content
	}
	c.use(r)
	changed, err := c.render()
	if err != nil {
		return content
	}
	return changed
}
