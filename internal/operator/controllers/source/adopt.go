package source

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
)

// adopt takes over the instance of the Machine of the same name and host in the other API: OpenShift keeps many Machines in both APIs, and the one of
// the Machine API records which of the two is authoritative. The node is not affected. adopt returns true even while the other Machine is authoritative,
// so that no second instance is created.
func (s *machineSource) adopt(ctx context.Context, v machineView) (taken bool, err error) {
	twin := s.twin(v)
	if twin == nil {
		return false, nil
	}
	if s.source == api.SourceClusterAPI {
		if authoritative, err := s.machineAPIIsAuthoritative(ctx, v.object.GetName()); authoritative || err != nil {
			return true, err
		}
	}
	adopted := twin.DeepCopy()
	adopted.Labels = kube.Merge(twin.Labels, v.Instance.Labels)
	adopted.Annotations = kube.Merge(twin.Annotations, v.Instance.Annotations)
	if err := s.Client.Patch(ctx, adopted, client.MergeFrom(twin)); err != nil {
		return true, fmt.Errorf("taking over WindowsInstance %s: %w", twin.Name, err)
	}
	s.Events.Emit(kube.Event{Object: v.object, Related: adopted, Type: corev1.EventTypeNormal, Reason: api.EventInstanceSetup, Action: "Adopt"},
		"WindowsInstance %s now belongs to this Machine, not to %s of the other API", twin.Name, twin.Annotations[api.AnnotationMachine])
	return true, nil
}

// twin returns the instance of the Machine of the same name in the other API, if it is of the same host.
func (s *machineSource) twin(v machineView) *v1alpha1.WindowsInstance {
	other, namespace := api.SourceMachine, MachineAPINamespace
	if s.source == api.SourceMachine {
		other, namespace = api.SourceClusterAPI, ClusterAPINamespace
	}
	for _, i := range sorted(v.instances) {
		ip, err := netip.ParseAddr(i.Spec.Address)
		if err == nil && slices.Contains(v.Addresses, ip) && i.DeletionTimestamp == nil &&
			i.Labels[api.LabelSource] == other && i.Annotations[api.AnnotationMachine] == machines.ID(namespace, v.object.GetName()) {
			return i
		}
	}
	return nil
}

// machineAPIIsAuthoritative reports whether the Machine API's Machine of a name is authoritative.
func (s *machineSource) machineAPIIsAuthoritative(ctx context.Context, name string) (bool, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: machines.MachineAPIGroup, Version: "v1beta1", Kind: machines.Kind})
	err := s.Live.Get(ctx, types.NamespacedName{Namespace: MachineAPINamespace, Name: name}, object)
	if kube.Unavailable(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Machine %s/%s: %w", MachineAPINamespace, name, err)
	}
	m, err := machines.Read(object)
	return !m.OfOtherAPI, err
}

// announcementCache caches the announcements of Machines, so that each version of a Machine is read once: the reconcile of each Machine needs all
// announcements.
type announcementCache struct {
	mu   sync.Mutex
	read map[string]announcements // by ID
}

// announcements are those of one version of a Machine.
type announcements struct {
	version string
	all     []Announcement
}

// get returns the hosts that Machines announce, sorted by Machine.
func (a *announcementCache) get(list []unstructured.Unstructured, c machines.Cluster) []Announcement {
	a.mu.Lock()
	defer a.mu.Unlock()
	current := map[string]announcements{}
	var all []Announcement
	for i := range list {
		id, version := machines.ID(list[i].GetNamespace(), list[i].GetName()), string(list[i].GetUID())+"/"+list[i].GetResourceVersion()
		known := a.read[id]
		if known.version != version {
			known = announcements{version: version, all: announcementsOf(&list[i], c)}
		}
		current[id] = known
		all = append(all, known.all...)
	}
	a.read = current
	slices.SortStableFunc(all, func(a, b Announcement) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func announcementsOf(object *unstructured.Unstructured, c machines.Cluster) (all []Announcement) {
	m, err := machines.Read(object)
	if err != nil {
		return nil
	}
	id := machines.ID(m.Namespace, m.Name)
	d := machines.Decide(m, c)
	if d.Instance != nil && d.Instance.Spec.Hostname != "" {
		m.Names = append(m.Names, d.Instance.Spec.Hostname)
	}
	for _, ip := range d.Addresses {
		all = append(all, Announcement{source: m.Source, Object: "Machine " + id, ID: id, Address: ip, Names: m.Names})
	}
	return all
}
