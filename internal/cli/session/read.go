package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// Read reads what a fleet's status needs, with six requests: WindowsInstances, WindowsConfig, the Windows nodes, the operator's Deployment, the
// warnings of its namespace, and the pods that do not run. It fails only if WindowsInstances cannot be read; other failed reads are listed in
// Unread.
func (s *Session) Read(ctx context.Context) (fleetstatus.Input, error) {
	c, err := s.Client()
	if err != nil {
		return fleetstatus.Input{}, err
	}
	r := reading{client: c, in: fleetstatus.Input{Now: time.Now()}}
	var limited bool
	// The first request runs alone: concurrent requests would each run a failing credential plugin.
	r.in.Instances, r.in.Namespace, limited, err = s.instances(ctx, c)
	if err != nil {
		return r.in, err
	}
	r.work.Go(func() { r.config(ctx) })
	r.work.Go(func() { r.nodes(ctx) })
	r.work.Go(func() { r.operator(ctx) })
	r.work.Go(func() { r.events(ctx, r.in.Namespace, fields.Set{"type": corev1.EventTypeWarning}) })
	if limited {
		r.unread("pods", Failf(CodeForbidden, "not read, because you are not allowed to list in all namespaces"))
	} else {
		r.work.Go(func() { r.pods(ctx, fields.Set{"status.phase": string(corev1.PodPending)}) })
	}
	r.work.Wait()
	return r.in, nil
}

// ReadHost reads the fleet's status, and all events and pods of one of its hosts. The host is named by its WindowsInstance, its Node or its
// address.
func (s *Session) ReadHost(ctx context.Context, name string) (fleetstatus.Fleet, fleetstatus.Host, error) {
	in, err := s.Read(ctx)
	if err != nil {
		return fleetstatus.Fleet{}, fleetstatus.Host{}, err
	}
	h, found := fleetstatus.Of(in).Find(name)
	if !found {
		return fleetstatus.Fleet{}, h, NotFound(name, in.Namespace, len(in.Instances))
	}
	c, err := s.Client()
	if err != nil {
		return fleetstatus.Fleet{}, h, err
	}
	r := reading{client: c, in: in}
	r.in.Events, r.in.Pods = nil, nil
	r.in.Unread = slices.DeleteFunc(slices.Clone(in.Unread), func(u fleetstatus.Unread) bool { return u.What == "pods" || u.What == "events" })
	r.work.Go(func() { r.events(ctx, in.Namespace, fields.Set{"involvedObject.name": h.Name}) })
	if h.Node != "" {
		r.work.Go(func() {
			r.events(ctx, metav1.NamespaceDefault, fields.Set{"involvedObject.kind": "Node", "involvedObject.name": h.Node})
		})
		r.work.Go(func() { r.pods(ctx, fields.Set{"spec.nodeName": h.Node}) })
	}
	r.work.Wait()
	fleet := fleetstatus.Of(r.in)
	h, _ = fleet.Find(h.Name)
	return fleet, h, nil
}

// NotFound returns the error for a host that does not exist.
func NotFound(host, namespace string, hosts int) error {
	return Failf(CodeNotFound, "no host %q: none of the %d WindowsInstances in namespace %s has this name, node name or address", host, hosts, namespace)
}

// instances returns the WindowsInstances of the operator's namespace, and that namespace. limited means that the user may not list all
// namespaces.
func (s *Session) instances(ctx context.Context, c client.Client) (items []v1alpha1.WindowsInstance, namespace string, limited bool, err error) {
	const kind = "windowsinstances." + api.GroupName
	var list v1alpha1.WindowsInstanceList
	if named := s.NamespaceFlag(); named != "" {
		err := c.List(ctx, &list, client.InNamespace(named))
		return list.Items, named, false, explainInstances(err, kind, " in namespace "+named)
	}
	if err = c.List(ctx, &list); apierrors.IsForbidden(err) {
		namespace = s.fallbackNamespace()
		err = c.List(ctx, &list, client.InNamespace(namespace))
		return list.Items, namespace, true, explainInstances(err, kind, " in namespace "+namespace)
	}
	if err != nil {
		return nil, "", false, explainInstances(err, kind, "")
	}
	namespace, err = operatorNamespace(list.Items, s.fallbackNamespace())
	list.Items = slices.DeleteFunc(list.Items, func(i v1alpha1.WindowsInstance) bool { return i.Namespace != namespace })
	return list.Items, namespace, false, err
}

func explainInstances(err error, kind, scope string) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return Failf(CodeNotInstalled, "the cluster does not serve %s: the operator is not installed, or is too old (docs/tasks/install.md)", kind)
	}
	return Explain(err, "listing "+kind+scope)
}

func operatorNamespace(items []v1alpha1.WindowsInstance, fallback string) (string, error) {
	var found []string
	for i := range items {
		if !slices.Contains(found, items[i].Namespace) {
			found = append(found, items[i].Namespace)
		}
	}
	switch {
	case len(found) == 0:
		return fallback, nil
	case len(found) == 1:
		return found[0], nil
	case slices.Contains(found, api.DefaultNamespace):
		return api.DefaultNamespace, nil
	}
	slices.Sort(found)
	return "", Failf(CodeUsage, "namespaces %q have WindowsInstances: set the namespace of the operator with -n", found)
}

type reading struct {
	client client.Client
	work   sync.WaitGroup

	mu sync.Mutex // guards Events and Unread; one goroutine at most sets each other field
	in fleetstatus.Input
}

func (r *reading) unread(resource string, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in.Unread = append(r.in.Unread, fleetstatus.Unread{What: resource, Why: err.Error()})
	slices.SortFunc(r.in.Unread, func(a, b fleetstatus.Unread) int { return strings.Compare(a.What, b.What) })
}

func (r *reading) config(ctx context.Context) {
	config := &v1alpha1.WindowsConfig{}
	err := r.client.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, config)
	if err == nil {
		r.in.Config = config
	}
	r.unread("windowsconfigs", Explain(client.IgnoreNotFound(err), "reading WindowsConfig "+api.WindowsConfigName))
}

func (r *reading) nodes(ctx context.Context) {
	var list corev1.NodeList
	err := r.client.List(ctx, &list, client.MatchingLabels{corev1.LabelOSStable: "windows"})
	r.in.Nodes = list.Items
	r.unread("nodes", Explain(err, "listing nodes"))
}

func (r *reading) operator(ctx context.Context) {
	d := &appsv1.Deployment{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: r.in.Namespace, Name: fleetstatus.DeploymentName}, d)
	if err == nil {
		r.in.Operator = d
	}
	r.unread("deployments", Explain(client.IgnoreNotFound(err), "reading Deployment "+fleetstatus.DeploymentName))
}

// maxListed limits the events or pods that are read: a cluster may have very many.
const maxListed = 5000

// incomplete reports a list that has more objects than were read.
func (r *reading) incomplete(resource string, list client.ObjectList) {
	if list.GetContinue() != "" {
		r.unread(resource, fmt.Errorf("only the first %d were read", maxListed))
	}
}

func (r *reading) events(ctx context.Context, namespace string, selected fields.Set) {
	var list corev1.EventList
	err := r.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: selected.AsSelector()}, client.Limit(maxListed))
	r.mu.Lock()
	r.in.Events = append(r.in.Events, list.Items...)
	r.mu.Unlock()
	r.unread("events", Explain(err, "listing events in namespace "+namespace))
	r.incomplete("events", &list)
}

func (r *reading) pods(ctx context.Context, selected fields.Set) {
	var list corev1.PodList
	err := r.client.List(ctx, &list, client.MatchingFieldsSelector{Selector: selected.AsSelector()}, client.Limit(maxListed))
	r.in.Pods = list.Items
	r.unread("pods", Explain(err, "listing pods"))
	r.incomplete("pods", &list)
}
