package desired

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// defaultPriorityClass is that of the original operator's kubelet.
const defaultPriorityClass = "ABOVE_NORMAL_PRIORITY_CLASS"

// Eviction signals of memory, and of the drive of the kubelet's folder.
const (
	memoryAvailable = "memory.available"
	nodefsAvailable = "nodefs.available"
)

// DefaultEvictionHard returns the kubelet's own hard eviction thresholds on Windows (DefaultEvictionHard in k8s.io/kubernetes,
// pkg/kubelet/eviction/defaults_windows.go). They apply where spec.kubelet.evictionHard sets none, and are not written to nodes.
func DefaultEvictionHard() map[string]string {
	return map[string]string{memoryAvailable: "500Mi", nodefsAvailable: "10%", "imagefs.available": "15%"}
}

// checkKubelet rejects values for the command line that the schema of WindowsConfig does not allow, and values with which the kubelet would not
// start or would evict pods that should stay.
func checkKubelet(spec v1alpha1.KubeletSpec) error {
	switch spec.PriorityClass {
	case "", "IDLE_PRIORITY_CLASS", "BELOW_NORMAL_PRIORITY_CLASS", "NORMAL_PRIORITY_CLASS", defaultPriorityClass, "HIGH_PRIORITY_CLASS",
		"REALTIME_PRIORITY_CLASS":
	default:
		return refuseKubelet("priorityClass", spec.PriorityClass, "set a priority class of Windows such as "+defaultPriorityClass)
	}
	for field, value := range map[string]string{
		"shutdownGracePeriod": spec.ShutdownGracePeriod, "shutdownGracePeriodCriticalPods": spec.ShutdownGracePeriodCriticalPods,
	} {
		if d, err := time.ParseDuration(value); value != "" && (err != nil || d <= 0) {
			return refuseKubelet(field, value, "set a duration such as 90s")
		}
	}
	for field, all := range map[string]map[string]string{
		"evictionHard": spec.EvictionHard, "evictionSoft": spec.EvictionSoft, "evictionMinimumReclaim": spec.EvictionMinimumReclaim,
	} {
		for _, signal := range slices.Sorted(maps.Keys(all)) {
			if _, known := DefaultEvictionHard()[signal]; !known {
				return refuseKubelet(field, signal, "set memory.available, nodefs.available or imagefs.available")
			}
			t, err := parseThreshold(all[signal])
			isAmount, remedy := field == "evictionMinimumReclaim", "set a quantity above 0 or a percentage up to 100%, such as 500Mi or 10%; use 0% or 100% to disable the threshold"
			if isAmount {
				remedy = "set a quantity above 0 or a percentage above 0% and up to 100%, such as 500Mi or 10%"
			}
			if err != nil || isAmount && t.isShare && t.amount == 0 {
				return refuseKubelet(field+"["+signal+"]", all[signal], remedy)
			}
		}
	}
	for field, all := range map[string]map[string]string{"systemReserved": spec.SystemReserved, "kubeReserved": spec.KubeReserved} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if q, err := resource.ParseQuantity(all[name]); err != nil || q.Sign() < 0 {
				return refuseKubelet(field+"["+name+"]", all[name], "set a quantity such as 500m or 2Gi")
			}
		}
	}
	if q, err := resource.ParseQuantity(spec.ContainerLogMaxSize); spec.ContainerLogMaxSize != "" && (err != nil || q.Sign() <= 0) {
		return refuseKubelet("containerLogMaxSize", spec.ContainerLogMaxSize, "set a quantity of bytes such as 50Mi")
	}
	if err := checkManagers(spec); err != nil {
		return err
	}
	return checkSoftEviction(spec)
}

// checkManagers rejects CPU and memory managers with which no kubelet would start. WICD checks whether a machine can have them.
func checkManagers(spec v1alpha1.KubeletSpec) error {
	r := resourcesOf(spec)
	if reserved := sum(r.SystemReserved["cpu"], r.KubeReserved["cpu"]); spec.CPUManagerPolicy == v1alpha1.CPUManagerStatic && reserved.Sign() <= 0 {
		return refuseKubelet("cpuManagerPolicy", "static", fmt.Sprintf("it requires reserved CPU, and systemReserved[cpu] is %.32q and kubeReserved[cpu] is %.32q; reserve some, such as 500m",
			r.SystemReserved["cpu"], r.KubeReserved["cpu"]))
	}
	if len(spec.ReservedMemory) > 0 && !r.hasMemoryManager() {
		return refuseKubelet("reservedMemory", spec.ReservedMemory[0].Memory, fmt.Sprintf("it requires memoryManagerPolicy BestEffort, which is %.32q; set that policy, or remove reservedMemory", spec.MemoryManagerPolicy))
	}
	if spec.TopologyManagerScope != "" && (spec.TopologyManagerPolicy == "" || spec.TopologyManagerPolicy == v1alpha1.TopologyManagerNone) {
		return refuseKubelet("topologyManagerScope", string(spec.TopologyManagerScope), fmt.Sprintf("topologyManagerPolicy is %.32q; set it as well", spec.TopologyManagerPolicy))
	}
	if !r.hasMemoryManager() {
		return nil
	}
	if t, err := parseThreshold(r.hard(memoryAvailable)); err == nil && t.isShare && !t.isOff() {
		return refuseKubelet("memoryManagerPolicy", "BestEffort", fmt.Sprintf("it requires reserved memory in bytes, and evictionHard[%s] is %s; set it in bytes, such as 500Mi", memoryAvailable, r.hard(memoryAvailable)))
	}
	return checkReservedMemory(spec.ReservedMemory, r)
}

// checkReservedMemory requires one amount per NUMA node, which together are the total reserved memory.
func checkReservedMemory(all []v1alpha1.MemoryReservation, r KubeletResources) error {
	seen := map[int32]bool{}
	var reserved resource.Quantity
	for _, item := range all {
		q, err := resource.ParseQuantity(item.Memory)
		field := fmt.Sprintf("reservedMemory[numaNode=%d]", item.NUMANode)
		switch {
		case err != nil || q.Sign() <= 0:
			return refuseKubelet(field, item.Memory, "set a quantity of bytes above 0, such as 1Gi")
		case item.NUMANode < 0 || seen[item.NUMANode]:
			return refuseKubelet(field, item.Memory, "list each NUMA node once, numbered from 0")
		}
		seen[item.NUMANode] = true
		reserved.Add(q)
	}
	want := r.memory()
	if len(all) > 0 && reserved.Cmp(want) != 0 {
		return refuseKubelet("reservedMemory", reserved.String(), fmt.Sprintf("its sum must equal the reserved memory, %s (systemReserved[memory] %.32q, kubeReserved[memory] %.32q and evictionHard[%s] %.32q)",
			want.String(), r.SystemReserved["memory"], r.KubeReserved["memory"], memoryAvailable, r.hard(memoryAvailable)))
	}
	if want.Sign() <= 0 {
		return refuseKubelet("memoryManagerPolicy", "BestEffort", "it requires reserved memory; set systemReserved[memory], such as 2Gi")
	}
	return nil
}

// refuseKubelet returns the error for a value below spec.kubelet.
func refuseKubelet(field, value, instead string) error {
	return fmt.Errorf(`%w: WindowsConfig "cluster": spec.kubelet.%s is %.64q; %s`, ErrSettings, field, value, instead)
}

// checkSoftEviction rejects soft thresholds that the kubelet does not accept, and those that the hard threshold preempts on any or on some
// machines.
func checkSoftEviction(spec v1alpha1.KubeletSpec) error {
	hard := DefaultEvictionHard()
	maps.Copy(hard, spec.EvictionHard)
	for _, signal := range slices.Sorted(maps.Keys(spec.EvictionSoft)) {
		soft := spec.EvictionSoft[signal]
		if spec.EvictionSoftGracePeriod[signal] == "" {
			return refuseKubelet("evictionSoft["+signal+"]", soft, "set evictionSoftGracePeriod["+signal+"] as well")
		}
		softLimit, _ := parseThreshold(soft) // checked
		hardLimit, _ := parseThreshold(hard[signal])
		switch {
		case softLimit.isOff() || hardLimit.isOff():
		case softLimit.isShare != hardLimit.isShare: // which of them is higher depends on the machine
			return refuseKubelet("evictionSoft["+signal+"]", soft, "set both thresholds in bytes or both in percent; the hard threshold is "+hard[signal])
		case softLimit.amount <= hardLimit.amount:
			return refuseKubelet("evictionSoft["+signal+"]", soft, "set more than the hard threshold, which is "+hard[signal])
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(spec.EvictionSoftGracePeriod)) {
		grace := spec.EvictionSoftGracePeriod[signal]
		if d, err := time.ParseDuration(grace); err != nil || d <= 0 {
			return refuseKubelet("evictionSoftGracePeriod["+signal+"]", grace, "set a duration such as 90s")
		}
		if spec.EvictionSoft[signal] == "" {
			return refuseKubelet("evictionSoftGracePeriod["+signal+"]", grace, "set evictionSoft["+signal+"] as well")
		}
	}
	return nil
}

// threshold is what must be free: bytes, or a percentage of the whole.
type threshold struct {
	amount  float64
	isShare bool
}

// isOff reports whether the kubelet ignores the threshold, which it does for 0% and 100%.
func (t threshold) isOff() bool { return t.isShare && (t.amount == 0 || t.amount == 100) }

func parseThreshold(text string) (threshold, error) {
	if share, isShare := strings.CutSuffix(text, "%"); isShare {
		amount, err := strconv.ParseFloat(share, 64)
		isOff := text == "0%" || text == "100%"
		if err == nil && !(amount > 0 && amount < 100) && !isOff {
			err = strconv.ErrRange
		}
		return threshold{amount: amount, isShare: true}, err
	}
	q, err := resource.ParseQuantity(text)
	if err == nil && q.Sign() <= 0 {
		err = strconv.ErrRange
	}
	return threshold{amount: q.AsApproximateFloat64()}, err
}
