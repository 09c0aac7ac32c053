package storytest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// newClient returns the cluster: the objects of controllertest.PlainCluster, an SSH key, and behavior that the fake client lacks.
func (s *story) newClient(r v1alpha1.RolloutSpec) client.Client {
	s.t.Helper()
	scheme := controllertest.Scheme(s.t)
	// A tracker without managed fields: nothing here uses them, and they take most of the time.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithStatusSubresource(&v1alpha1.WindowsInstance{}, &v1alpha1.WindowsConfig{}, &corev1.Node{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	for field, index := range instance.Indexes() {
		b = b.WithIndex(&v1alpha1.WindowsInstance{}, field, index)
	}
	for _, object := range controllertest.PlainCluster() {
		if config, ok := object.(*v1alpha1.WindowsConfig); ok {
			config.Spec.Rollout = r
		}
		b = b.WithObjects(object)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.PrivateKeySecret},
		Data:       map[string][]byte{api.PrivateKeyKey: controllertest.SSHKey(s.t, 0)},
	}
	base := b.WithObjects(secret).Build()
	for _, object := range append(controllertest.PlainCluster(), secret) {
		s.cache.refresh(s.ctx, base, object)
	}
	funcs := s.cache.funcs(func() { s.writes++ })
	funcs.SubResourceCreate = s.createSub
	patch := funcs.Patch
	funcs.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if node, ok := o.(*corev1.Node); ok {
			defer s.watchNode(node.Name)()
		}
		return patch(ctx, c, o, p, opts...)
	}
	return interceptor.NewClient(base, funcs)
}

// createSub evicts pods as their budgets allow, and creates tokens.
func (s *story) createSub(_ context.Context, _ client.Client, _ string, o, sub client.Object, _ ...client.SubResourceCreateOption) error {
	s.writes++
	switch sub := sub.(type) {
	case *policyv1.Eviction:
		return s.evicted(o.(*corev1.Pod))
	case *authenticationv1.TokenRequest:
		claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"jti":"token-%d"}`, s.writes))
		sub.Status.Token = "header." + claims + ".signature"
		return nil
	}
	return errors.New("unknown subresource")
}

func (s *story) evicted(named *corev1.Pod) error {
	pod := &corev1.Pod{}
	if err := s.client.Get(s.ctx, client.ObjectKeyFromObject(named), pod); err != nil {
		return err
	}
	if s.refuses != nil {
		return s.refuses
	}
	app := pod.Labels["app"]
	if left, limited := s.budgets[app]; limited {
		if left == 0 {
			e := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			e.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + app + " needs 2 healthy pods and has 2 currently"}}
			return e
		}
		s.budgets[app]--
	}
	s.record("pod %s is evicted from %s", pod.Name, pod.Spec.NodeName)
	return s.client.Delete(s.ctx, pod) // its finalizer delays its removal by the grace period
}

// lagging returns the controllers' client. Its cache may lag behind writes to instances.
func (s *story) lagging() client.Client {
	w := s.client.(client.WithWatch)
	return interceptor.NewClient(w, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			i, isInstance := into.(*v1alpha1.WindowsInstance)
			if !isInstance || !s.lags || s.former[key] == nil {
				return c.Get(ctx, key, into, opts...)
			}
			s.former[key].(*v1alpha1.WindowsInstance).DeepCopyInto(i)
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := s.forbids(o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := s.forbids(o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	})
}

// forbids applies the rule of deploy/admission.yaml for changes and deletions of Nodes by the operator.
func (s *story) forbids(o client.Object) error {
	var got corev1.Node
	if _, isNode := o.(*corev1.Node); !isNode || s.client.Get(s.ctx, client.ObjectKeyFromObject(o), &got) != nil || nodestate.IsWindows(&got) {
		return nil
	}
	return apierrors.NewForbidden(corev1.Resource("nodes"), o.GetName(), errors.New("the operator changes and deletes Windows nodes only"))
}

// storyEvents writes events into the story.
type storyEvents struct{ *story }

// Eventf implements events.EventRecorder.
func (r storyEvents) Eventf(about, _ runtime.Object, kind, reason, action, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	if r.filterEvent != nil && !r.filterEvent(about.(client.Object), reason, action, text) {
		return
	}
	if kind == corev1.EventTypeWarning || strings.HasPrefix(reason, "Maintenance") || strings.HasPrefix(reason, "Host") && reason != api.EventHostKeyPinned {
		r.record("%s: %s: %s", about.(client.Object).GetName(), reason, text)
	}
}

// publishFormer publishes the settings of the previous version. They contain another kubelet, which requires a drain.
func (s *story) publishFormer() {
	s.t.Helper()
	want, err := s.store.Read(s.ctx, s.version, controllertest.ClusterID)
	s.must(err)
	node := want.Node
	node.Version, node.Digest, node.Payload = oldVersion, strings.Repeat("c", 64), slices.Clone(node.Payload)
	for i, f := range node.Payload {
		if f.Path == "kubelet.exe" {
			node.Payload[i].SHA256 = strings.Repeat("c", 64)
		}
	}
	data, err := node.Data()
	s.must(err)
	private, err := s.store.SigningKey(s.ctx)
	s.must(err)
	name := api.ServicesConfigMapPrefix + oldVersion
	data, err = desired.Sign(data, desired.Statement{Cluster: controllertest.ClusterID, Name: name, Serial: time.Now().UnixMilli()}, private)
	s.must(err)
	s.must(s.client.Create(s.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{api.AnnotationSettings: "former"}}, Data: data,
	}))
}

// publishedKeys returns the SSH keys that nodes of a version must accept, and the name of their settings.
func (s *story) publishedKeys(version string) (keys []string, settings string) {
	node, settings := s.published(version)
	return node.AuthorizedKeys, settings
}

// published returns the settings of a version's nodes and their name; empty if none are published.
func (s *story) published(version string) (node desired.Node, settings string) {
	var cm corev1.ConfigMap
	if s.client.Get(s.ctx, types.NamespacedName{Namespace: "ns", Name: api.ServicesConfigMapPrefix + version}, &cm) != nil {
		return desired.Node{}, ""
	}
	node, err := desired.FromData(cm.Data)
	s.must(err)
	return node, cm.Annotations[api.AnnotationSettings]
}

// announce creates the hosts' instances.
func (s *story) announce(hosts ...*storyHost) {
	for _, h := range hosts {
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: h.name, Generation: 1}}
		i.Spec.Address, i.Spec.Username = h.address, "Administrator"
		s.must(s.client.Create(s.ctx, i))
	}
}

// joined announces all hosts and waits until they are nodes.
func (s *story) joined() {
	s.t.Helper()
	s.announce(s.hosts...)
	s.until("all hosts are nodes", time.Hour, func() bool { return s.ready() == len(s.hosts) })
}

// annotate sets an annotation of an instance as a user does.
func (s *story) annotate(instance, key, value string) {
	s.t.Helper()
	i := s.instance(instance)
	i.Annotations = kube.Merge(i.Annotations, map[string]string{key: value})
	s.must(s.client.Update(s.ctx, i))
}

// settled announces all hosts, waits until they are nodes, and makes their version the previous one, with pods on each.
func (s *story) settled(podsEach int) {
	s.joined()
	s.becomeFormer()
	for _, h := range s.hosts {
		for range podsEach {
			s.addPod(h.name, "web")
		}
	}
	s.lines = nil
	s.began = time.Now()
}

// becomeFormer makes the version of all nodes the previous one, as after an upgrade of the operator.
func (s *story) becomeFormer() {
	for _, h := range s.hosts {
		h.version, h.staged = oldVersion, false
		node := s.node(h.name)
		node.Annotations[api.AnnotationVersion], node.Annotations[api.AnnotationDesiredVersion] = oldVersion, oldVersion
		s.must(s.client.Update(s.ctx, node))
		i := s.instance(h.name)
		i.Status.Payload = v1alpha1.PayloadStatus{}
		s.must(s.client.Status().Update(s.ctx, i))
	}
	s.publishFormer()
}

// addPod creates a pod on a node. Its finalizer represents the grace period.
func (s *story) addPod(node, app string, change ...func(*corev1.Pod)) {
	s.pods++
	name := fmt.Sprintf("%s-%d", app, s.pods)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}, Finalizers: []string{"story/grace"}, CreationTimestamp: metav1.Now(),
	}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range change {
		c(pod)
	}
	s.must(s.client.Create(s.ctx, pod))
}

func (s *story) node(name string) *corev1.Node {
	s.t.Helper()
	var node corev1.Node
	s.must(s.client.Get(s.ctx, types.NamespacedName{Name: name}, &node))
	return &node
}

func (s *story) instance(name string) *v1alpha1.WindowsInstance {
	s.t.Helper()
	var i v1alpha1.WindowsInstance
	s.must(s.client.Get(s.ctx, types.NamespacedName{Namespace: "ns", Name: name}, &i))
	return &i
}

func (s *story) nodes() []corev1.Node {
	s.t.Helper()
	var list corev1.NodeList
	s.must(s.client.List(s.ctx, &list))
	return list.Items
}

func (s *story) allInstances() []v1alpha1.WindowsInstance {
	s.t.Helper()
	var list v1alpha1.WindowsInstanceList
	s.must(s.client.List(s.ctx, &list))
	return list.Items
}

func (s *story) podsOn(node string) []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	s.must(s.client.List(s.ctx, &list, client.MatchingFields{"spec.nodeName": node}))
	return list.Items
}

// ready counts the nodes that are Ready and schedulable with any version.
func (s *story) ready() int {
	n := 0
	for _, node := range s.nodes() {
		seen := rollout.NodeOf(&node)
		if seen.Ready && !seen.Unschedulable && seen.Version != "" {
			n++
		}
	}
	return n
}

// at counts the nodes in service with a version.
func (s *story) at(version string) int {
	n := 0
	for _, node := range s.nodes() {
		seen := rollout.NodeOf(&node)
		if seen.Ready && !seen.Unschedulable && seen.Version == version {
			n++
		}
	}
	return n
}

// put creates or replaces an object that the operator does not write. It exists only in the cache.
func (s *story) put(o client.Object) {
	s.puts++
	kind, key := s.cache.kind(o), client.ObjectKeyFromObject(o)
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("%s-%s", kind, key)))
	}
	o.SetResourceVersion(fmt.Sprint("put-", s.puts))
	if s.cache.objects[kind] == nil {
		s.cache.objects[kind] = map[client.ObjectKey]client.Object{}
	}
	s.cache.objects[kind][key] = o
	s.cache.changes++
}

// drop removes an object from the cache.
func (s *story) drop(kind string, key client.ObjectKey) {
	delete(s.cache.objects[kind], key)
	s.cache.changes++
}

// rules returns the WindowsConfig.
func (s *story) rules() *v1alpha1.WindowsConfig {
	s.t.Helper()
	var config v1alpha1.WindowsConfig
	s.must(s.client.Get(s.ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config))
	return &config
}

// configure changes the spec of WindowsConfig as a user does.
func (s *story) configure(change func(*v1alpha1.WindowsConfigSpec)) {
	s.t.Helper()
	config := s.rules()
	change(&config.Spec)
	s.must(s.client.Update(s.ctx, config))
}
