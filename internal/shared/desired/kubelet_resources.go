package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// affinityGate is the feature gate without which the kubelet's CPU, memory and topology managers do nothing on Windows
// (pkg/kubelet/cm/container_manager_windows.go). It is alpha in Kubernetes 1.32 to 1.37.
const affinityGate = "WindowsCPUAndMemoryAffinity"

// maxTopologyNodes is the maximum number of NUMA nodes for a topology manager (pkg/kubelet/cm/topologymanager).
const maxTopologyNodes = 8

// KubeletResources is the part of the kubelet's configuration that divides the machine's resources.
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

// memoryReservation is one NUMA node's part of systemReserved, kubeReserved and the hard eviction threshold.
type memoryReservation struct {
	NUMANode int32             `json:"numaNode"`
	Limits   map[string]string `json:"limits"`
}

// HeldKubelet is what a host's kubelet keeps using while it does not have the declared resources.
type HeldKubelet struct {
	KubeletResources
	// Boot identifies the start of Windows during which the change was held back. It takes effect at the next start.
	Boot string `json:"boot"`
	// Unsuitable is why the machine cannot have the declared resources; empty if they wait for a restart of Windows.
	Unsuitable string `json:"unsuitable,omitempty"`
}

// WaitsFor reports whether the change waits only for a restart of Windows and was held back during this boot.
func (h *HeldKubelet) WaitsFor(boot string) bool {
	return h != nil && h.Unsuitable == "" && h.Boot == boot
}

// resourcesOf returns the resources for a spec. Fields that need the feature gate are set only if one of its managers is active.
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

// reservedMemory returns what is reserved of each NUMA node: everything on node 0 unless the spec says otherwise. The kubelet rejects
// quantities that it does not parse to a whole number, such as 1.5Gi, so they are written in bytes.
func reservedMemory(spec v1alpha1.KubeletSpec, total resource.Quantity) (all []memoryReservation) {
	reservation := func(node int32, q resource.Quantity) memoryReservation {
		return memoryReservation{NUMANode: node, Limits: map[string]string{"memory": strconv.FormatInt(q.Value(), 10)}}
	}
	for _, item := range spec.ReservedMemory {
		q, _ := resource.ParseQuantity(item.Memory) // checked
		all = append(all, reservation(item.NUMANode, q))
	}
	if len(all) == 0 {
		all = append(all, reservation(0, total))
	}
	return all
}

func (r KubeletResources) hasMemoryManager() bool {
	return r.MemoryManagerPolicy == string(v1alpha1.MemoryManagerBestEffort)
}

// isManaged reports whether the CPU, memory or topology manager is active.
func (r KubeletResources) isManaged() bool {
	hasTopology := r.TopologyManagerPolicy != "" && r.TopologyManagerPolicy != string(v1alpha1.TopologyManagerNone)
	return r.CPUManagerPolicy == string(v1alpha1.CPUManagerStatic) || r.hasMemoryManager() || hasTopology
}

// memory returns the reserved memory without thresholds in percent, which depend on the machine.
func (r KubeletResources) memory() resource.Quantity {
	return r.reserved("memory", memoryAvailable, 0)
}

// reserved returns what is reserved of a resource, including the hard eviction threshold of its signal, as the kubelet does
// (GetNodeAllocatableReservation in pkg/kubelet/cm). Thresholds in percent are of total.
func (r KubeletResources) reserved(name, signal string, total uint64) resource.Quantity {
	all := sum(r.SystemReserved[name], r.KubeReserved[name])
	switch t, err := parseThreshold(r.hard(signal)); {
	case err != nil || t.isOff():
	case t.isShare:
		all.Add(*resource.NewQuantity(int64(float64(total)*t.amount/100), resource.BinarySI))
	default:
		all.Add(sum(r.hard(signal)))
	}
	return all
}

// hard returns the hard eviction threshold of a signal; empty if there is none.
func (r KubeletResources) hard(signal string) string {
	return cmp.Or(r.EvictionHard[signal], DefaultEvictionHard()[signal])
}

// sum adds quantities. Texts that are not quantities count as zero.
func sum(texts ...string) (total resource.Quantity) {
	for _, text := range texts {
		if q, err := resource.ParseQuantity(text); err == nil {
			total.Add(q)
		}
	}
	return total
}

// State returns what the kubelet's state files of processors and memory depend on; empty if it has none. The kubelet does not start with state
// files of another configuration (policy_static.go of pkg/kubelet/cm/cpumanager and memorymanager).
func (r KubeletResources) State() string {
	if !r.isManaged() {
		return ""
	}
	r.EvictionHard = map[string]string{memoryAvailable: r.hard(memoryAvailable)}
	r.SystemReserved, r.KubeReserved = withoutStorage(r.SystemReserved), withoutStorage(r.KubeReserved)
	b, _ := json.Marshal(r) // texts and numbers only
	return string(b)
}

func withoutStorage(reserved map[string]string) map[string]string {
	reserved = maps.Clone(reserved)
	delete(reserved, "ephemeral-storage")
	return reserved
}

// Machine is the size and the Windows build of a host: bytes of memory and of the drive of the kubelet's folder, and numbers. 0 means unknown.
type Machine struct {
	Memory, Disk          uint64
	Processors, NUMANodes int
	Build                 int
}

// Check returns why a machine cannot be divided this way: the kubelet would not start, or would leave nothing for pods that request the
// resource.
func (r KubeletResources) Check(m Machine) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf(`WindowsConfig "cluster": spec.kubelet `+format, args...)
	}
	for _, res := range []struct {
		name, signal string
		existing     uint64
		text         func(resource.Quantity) string
	}{
		{"memory", memoryAvailable, m.Memory, megabytes},
		{"cpu", "", uint64(max(m.Processors, 0)), func(q resource.Quantity) string { return q.String() }},
		{"ephemeral-storage", nodefsAvailable, m.Disk, megabytes},
	} {
		reserved, existing := r.reserved(res.name, res.signal, res.existing), *resource.NewQuantity(int64(min(res.existing, 1<<62)), resource.DecimalSI)
		if res.existing == 0 || reserved.Cmp(existing) < 0 {
			continue
		}
		threshold := ""
		if res.signal != "" {
			threshold = fmt.Sprintf(", evictionHard %.32q", r.hard(res.signal))
		}
		return refuse("reserves %s of %s (systemReserved %.32q, kubeReserved %.32q%s), and this machine has %s; reserve less than the smallest host has",
			res.text(reserved), res.name, r.SystemReserved[res.name], r.KubeReserved[res.name], threshold, res.text(existing))
	}
	missing := slices.IndexFunc(r.ReservedMemory, func(item memoryReservation) bool { return int(item.NUMANode) >= m.NUMANodes })
	switch {
	case r.hasMemoryManager() && m.Build > 0 && m.Build <= windows2019:
		return refuse("has memoryManagerPolicy %s, and this machine has Windows Server 2019 (build %d); the kubelet needs Windows Server 2022 for it", r.MemoryManagerPolicy, m.Build)
	case m.NUMANodes > 0 && missing >= 0:
		return refuse("reserves memory of NUMA node %d in reservedMemory, and this machine has %d, numbered from 0; use NUMA nodes that every host has",
			r.ReservedMemory[missing].NUMANode, m.NUMANodes)
	case r.isManaged() && m.NUMANodes > maxTopologyNodes && r.TopologyManagerPolicy != "" && r.TopologyManagerPolicy != string(v1alpha1.TopologyManagerNone):
		return refuse("has topologyManagerPolicy %s, and this machine has %d NUMA nodes; the kubelet supports it with at most %d", r.TopologyManagerPolicy, m.NUMANodes, maxTopologyNodes)
	}
	return nil
}

// megabytes formats a quantity for messages: in bytes it would be long.
func megabytes(q resource.Quantity) string { return fmt.Sprintf("%d MiB", q.Value()>>20) }

// KubeletResources returns the resources in the declared kubelet configuration; empty if there is none.
func (n Node) KubeletResources() (r KubeletResources) {
	for _, f := range n.Files {
		if f.Path == kubeletConfig {
			_ = json.Unmarshal([]byte(f.Content), &r) // the kubelet reports what it cannot parse
		}
	}
	return r
}

// with returns the kubelet's configuration with these resources, or unchanged if it cannot be parsed.
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
