package sim

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status returns the node's status.
func (k *kubelet) status() corev1.NodeStatus {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("4"),
		corev1.ResourceMemory:           *resource.NewQuantity(int64(k.facts.MemoryBytes), resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(k.facts.DiskBytes), resource.BinarySI),
		corev1.ResourcePods:             resource.MustParse("250"),
	}
	version := fmt.Sprintf("10.0.%d.%d", k.facts.Build, k.facts.UBR)
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity, Conditions: k.conditions(),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: k.flags["node-ip"]}, {Type: corev1.NodeHostName, Address: k.node},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: k.facts.Hostname, SystemUUID: k.facts.Hostname, BootID: k.facts.BootID,
			KernelVersion: version, OSImage: k.facts.Product, OperatingSystem: "windows", Architecture: k.facts.Architecture,
			ContainerRuntimeVersion: ContainerRuntime, KubeletVersion: k.options.Version,
		},
	}
}

func (k *kubelet) conditions() []corev1.NodeCondition {
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	ready := condition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady",
		"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized")
	if k.ready() {
		ready = condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		ready,
	}
}

// leaseNamespace is the namespace of nodes' leases.
const leaseNamespace = "kube-node-lease"

// renewLease renews the node's lease.
func (k *kubelet) renewLease(ctx context.Context) error {
	leases := k.api.coordination.Leases(leaseNamespace)
	now, seconds := metav1.NewMicroTime(time.Now()), int32(4*k.options.Heartbeat/time.Second)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &k.node, LeaseDurationSeconds: &seconds, RenewTime: &now}
	if k.api.lease != nil {
		lease := k.api.lease.DeepCopy()
		lease.Spec = spec
		if updated, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
			k.api.lease = updated
			return nil
		}
	}
	created, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.node}, Spec: spec}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = leases.Get(ctx, k.node, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("renewing lease %s: %w", k.node, err)
	}
	k.api.lease = created
	return nil
}
