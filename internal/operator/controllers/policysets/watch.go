package policysets

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Cache limits in bytes: per object, per kind, and per namespace. A pod takes 2 or 3 kilobytes, a
// policy with 10,000 ranges one megabyte. What does not fit closes pods.
const (
	maxPod              = 32 << 10
	allPods             = 96 << 20
	podsOfNamespace     = 48 << 20
	maxPolicy           = 4 << 20
	allPolicies         = 64 << 20
	policiesOfNamespace = 8 << 20
	maxNamespace        = 64 << 10
	allNamespaces       = 16 << 20
)

// startTimeout limits the time until the watches have all objects, and is the pause before another attempt otherwise.
const startTimeout = 2 * time.Minute

// Informers describe what is compiled, and the metadata of sets.
func Informers(namespace string) kube.Informers {
	// The API server selects pods whose network is still in use.
	running := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	return kube.Informers{
		{
			Object: &corev1.Pod{}, Field: running, Keep: kube.KeepFunc(keepPod), Bytes: maxPod,
			Share: &kube.Share{Total: allPods, PerOwner: podsOfNamespace, Owner: client.Object.GetNamespace},
		},
		{
			Object: &networkingv1.NetworkPolicy{}, Keep: kube.KeepFunc(keepPolicy), Bytes: maxPolicy,
			Share: &kube.Share{Total: allPolicies, PerOwner: policiesOfNamespace, Owner: client.Object.GetNamespace},
		},
		{
			Object: &corev1.Namespace{}, Keep: kube.KeepFunc(keepNamespace), Bytes: maxNamespace,
			Share: &kube.Share{Total: allNamespaces, PerOwner: allNamespaces, Owner: func(client.Object) string { return "" }},
		},
		{Object: setMetadata(), Namespace: namespace},
	}
}

// setMetadata returns a WindowsPolicySet without its content.
func setMetadata() *metav1.PartialObjectMetadata {
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("WindowsPolicySet"))
	return set
}

// keepPod keeps what package networkpolicy reads.
func keepPod(p *corev1.Pod) (client.Object, bool) {
	kept := &corev1.Pod{ObjectMeta: identityOf(p)}
	kept.Labels = p.Labels
	if uid := p.Annotations[corev1.MirrorPodAnnotationKey]; uid != "" {
		kept.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: truncate.Text(uid, truncate.Note)}
	}
	kept.Spec = corev1.PodSpec{
		NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork, Containers: keepPorts(p.Spec.Containers), InitContainers: keepPorts(p.Spec.InitContainers),
	}
	kept.Status = corev1.PodStatus{
		Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs, HostIP: p.Status.HostIP, HostIPs: p.Status.HostIPs,
	}
	return kept, true
}

// keepPorts keeps the named ports of containers; those of init containers only matter if they run beside the others.
func keepPorts(all []corev1.Container) (kept []corev1.Container) {
	for _, container := range all {
		var ports []corev1.ContainerPort
		for _, p := range container.Ports {
			if p.Name != "" {
				ports = append(ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
			}
		}
		if len(ports) > 0 {
			kept = append(kept, corev1.Container{Ports: ports, RestartPolicy: container.RestartPolicy})
		}
	}
	return kept
}

func keepPolicy(p *networkingv1.NetworkPolicy) (client.Object, bool) {
	return &networkingv1.NetworkPolicy{ObjectMeta: identityOf(p), Spec: p.Spec}, true
}

func keepNamespace(n *corev1.Namespace) (client.Object, bool) {
	kept := &corev1.Namespace{ObjectMeta: identityOf(n)}
	kept.Labels = n.Labels
	return kept, true
}

func identityOf(o client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
	}
}

// watch starts the watches, which end with ctx or when end is called. It calls changed for each change of what is kept; isInput is false
// for a change of a set.
func watch(ctx context.Context, m manager.Manager, namespace string, changed func(isInput bool)) (_ client.Reader, end func(), err error) {
	kinds := Informers(namespace)
	options := kinds.Cache()
	options.HTTPClient, options.Scheme, options.Mapper = m.GetHTTPClient(), m.GetScheme(), m.GetRESTMapper()
	objects, err := cache.New(m.GetConfig(), options)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	for _, kind := range kinds {
		informer, err := objects.GetInformer(ctx, kind.Object, cache.BlockUntilSynced(false))
		if err == nil {
			_, isSet := kind.Object.(*metav1.PartialObjectMetadata)
			_, err = informer.AddEventHandler(onChange(func() { changed(!isSet) }))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%T: %w", kind.Object, err)
		}
	}
	go func() { _ = objects.Start(ctx) }() // it fails only if it was started before
	synced, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	if !objects.WaitForCacheSync(synced) {
		return nil, nil, errors.New("the API server did not return all pods, namespaces and NetworkPolicies in time; the operator's log names the kinds that it is not allowed to list")
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		kinds.FreeShares(ctx, m.GetScheme(), objects, func(string, int) {})
	}, kube.SharesInterval)
	return objects, cancel, nil
}

// onChange calls changed whenever the retained fields of an object change. Most pod updates do not change them.
func onChange(changed func()) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		DeleteFunc: func(any) { changed() },
		UpdateFunc: func(old, new any) {
			if !isSame(old, new) {
				changed()
			}
		},
	}
}

// isSame reports whether two versions of an object have the same content.
func isSame(old, new any) bool {
	before, ok := old.(client.Object)
	after, isObject := new.(client.Object)
	if !ok || !isObject || reflect.TypeOf(old) != reflect.TypeOf(new) {
		return false
	}
	version := before.GetResourceVersion()
	if version == after.GetResourceVersion() {
		return true // of a resync
	}
	copied := before.DeepCopyObject().(client.Object)
	copied.SetResourceVersion(after.GetResourceVersion())
	return equality.Semantic.DeepEqual(copied, after)
}
