package controllers

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/csrapproval"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/explain"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/networkpolicies"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Maximum sizes of one object in memory, in bytes. The API server accepts objects of 1.5 MB; one with as many small parts as fit into that takes
// about twenty times as much memory.
const (
	whole      = 32 << 20 // for kinds that only administrators create
	maxNode    = 512 << 10
	maxClass   = 64 << 10
	maxPrivate = 2 << 20
)

// Informers describes the manager's cache: all kinds that the operator watches, except those that package settings watches by name and Machines,
// which have their own caches. Others can create any number of pods, Services, certificate requests and ConfigMaps; kubelets write Nodes.
func Informers(namespace string) kube.Informers {
	return kube.Informers{
		explain.Pending(),
		csrapproval.Requests(),
		source.Services(),
		networkpolicies.Policies(),
		{Object: &corev1.Node{}, Keep: kube.KeepFunc(keepNode), Bytes: maxNode},
		{Object: &corev1.ConfigMap{}, Namespace: namespace, Keep: kube.KeepFunc(keepConfigMap), Bytes: whole},
		{Object: &corev1.Secret{}, Namespace: namespace, Name: api.PrivateKeySecret, Keep: kube.KeepFunc(keepPrivateKey), Bytes: maxPrivate},
		{Object: &rbacv1.Role{}, Namespace: namespace, Name: api.WICDRole},
		{Object: &nodev1.RuntimeClass{}, Keep: kube.Whole, Bytes: maxClass},
		{Object: &v1alpha1.WindowsInstance{}, Namespace: namespace, Keep: kube.Whole, Bytes: whole},
		{Object: &v1alpha1.WindowsConfig{}, Name: api.WindowsConfigName, Keep: kube.Whole, Bytes: whole},
	}
}

// keepConfigMap keeps the ConfigMaps that the operator reads; others in its namespace are cut. Only the operator writes the published ones.
func keepConfigMap(cm *corev1.ConfigMap) (client.Object, bool) {
	switch cm.Name {
	case api.InstancesConfigMap, api.KnownHostsConfigMap:
		return kube.Whole(cm)
	}
	if strings.HasPrefix(cm.Name, api.ServicesConfigMapPrefix) {
		return kube.Whole(cm)
	}
	kept, _ := kube.Informer{}.Transform(cm)
	return kept.(client.Object), false
}

func keepPrivateKey(s *corev1.Secret) (client.Object, bool) {
	s.Data = map[string][]byte{api.PrivateKeyKey: s.Data[api.PrivateKeyKey]}
	if s.Data[api.PrivateKeyKey] == nil {
		s.Data = nil
	}
	s.StringData = nil
	kube.ShortenMetadata(s)
	return s, true
}

// Limits of a Node, which its kubelet writes.
const (
	maxTaints     = 128
	maxConditions = 32
	maxAddresses  = 256
	maxCIDRs      = 4
)

// keepNode keeps the fields of a Node that are read: not its images, volumes and resources.
func keepNode(n *corev1.Node) (client.Object, bool) {
	kube.ShortenMetadata(n)
	n.Spec = corev1.NodeSpec{
		PodCIDR: n.Spec.PodCIDR, PodCIDRs: first(n.Spec.PodCIDRs, maxCIDRs), ProviderID: truncate.Text(n.Spec.ProviderID, truncate.Reported),
		Unschedulable: n.Spec.Unschedulable, Taints: first(n.Spec.Taints, maxTaints),
	}
	info := corev1.NodeSystemInfo{
		MachineID: n.Status.NodeInfo.MachineID, SystemUUID: n.Status.NodeInfo.SystemUUID, BootID: n.Status.NodeInfo.BootID, KernelVersion: n.Status.NodeInfo.KernelVersion,
		OSImage: n.Status.NodeInfo.OSImage, ContainerRuntimeVersion: n.Status.NodeInfo.ContainerRuntimeVersion, KubeletVersion: n.Status.NodeInfo.KubeletVersion,
		OperatingSystem: n.Status.NodeInfo.OperatingSystem, Architecture: n.Status.NodeInfo.Architecture,
	}
	for _, text := range []*string{
		&info.MachineID, &info.SystemUUID, &info.BootID, &info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion,
		&info.OperatingSystem, &info.Architecture,
	} {
		*text = truncate.Text(*text, truncate.Note)
	}
	n.Status = corev1.NodeStatus{
		Phase: n.Status.Phase, Conditions: first(n.Status.Conditions, maxConditions), Addresses: first(n.Status.Addresses, maxAddresses), NodeInfo: info,
	}
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		c.Reason, c.Message = truncate.Text(c.Reason, truncate.Note), truncate.Text(c.Message, truncate.Reported)
	}
	for i := range n.Status.Addresses {
		n.Status.Addresses[i].Address = truncate.Text(n.Status.Addresses[i].Address, truncate.Note)
	}
	return n, true
}

// first copies the first items of a list, so that the rest can be freed.
func first[T any](list []T, n int) []T { return append([]T(nil), list[:min(len(list), n)]...) }
