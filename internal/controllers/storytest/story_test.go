package storytest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"
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
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/controllers/csrapproval"
	"github.com/windows-machine-config/wmco/internal/controllers/fleet"
	"github.com/windows-machine-config/wmco/internal/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/controllers/source"
	"github.com/windows-machine-config/wmco/internal/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/drain"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/remote"
	"github.com/windows-machine-config/wmco/internal/rollout"
	"github.com/windows-machine-config/wmco/payload"
)

// updateStories writes what the stories tell instead of comparing it: go test -run Story -update-stories.
func updateStories() *bool { return flag.Bool("update-stories", false, "write testdata/stories") }

var writeStories = updateStories()

const (
	storyWICD = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	was       = "1.0.0-0000000"
)

// story is a cluster in which the real controllers work, with hosts, clock and chance that are simulated. After each tick it is
// looked whether everything that must always hold does.
type story struct {
	t       *testing.T
	ctx     context.Context
	random  *rand.Rand
	client  client.Client
	cache   *storyCache
	hosts   []*storyHost
	version string // that the operator brings
	content payload.Manifest
	began   time.Time
	lines   []string
	every   time.Duration // a tick
	writes  int

	instances    *instance.Controller
	fleet        *fleet.Controller
	settings     *settings.Controller
	certificates *csrapproval.Controller
	store        *settings.Store
	registry     *prometheus.Registry
	slots        *kube.Slots // of hosts that join
	others       []*kube.Slot // that other hosts have
	names        *instance.NameClaims
	live         client.Client // what the instances' controller reads of the API server
	dialer       func(context.Context, remote.Target, remote.Options) (instance.SSHHost, error)
	lookup       func(ctx context.Context, network, name string) ([]netip.Addr, error)
	operated     int                                // number of the write that the controllers' watches looked at last
	held         int                                // number of the write that mustHold looked at last
	seen         map[types.NamespacedName]string    // what of an instance and its Node was looked at
	due          map[types.NamespacedName]time.Time // when an instance asked to be looked at again
	fleetSeen    string
	settingsSeen string
	fleetDue     time.Time
	// former are the instances as they were when this tick began; with lags set, they are what the controllers' cache has.
	former map[client.ObjectKey]client.Object
	lags   bool
	// budgets maps a label "app" of pods to how many may be evicted.
	budgets map[string]int
	// announcers know Machines.
	announcers []source.Announcer
	pods       int
	// refuses is what evictions are answered with; nil where budgets decide.
	refuses error
	reasons map[string]bool
}

// tell runs a story in simulated time and compares what it told with its golden file.
func tell(t *testing.T, name string, hosts int, rolloutSpec v1alpha1.RolloutSpec, run func(*story)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, hosts, rolloutSpec)
		run(s)
		s.mustBeQuiet()
		got := strings.Join(s.lines, "\n") + "\n"
		file := filepath.Join("testdata", "stories", name+".golden")
		if *writeStories {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the story is another one than in %s (write it with -update-stories):\n%s", file, firstDifference(string(want), got))
		}
	})
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

func newStory(t *testing.T, hosts int, r v1alpha1.RolloutSpec) *story {
	t.Helper()
	file := func(path, sum string) payload.File {
		return payload.File{Path: path, Component: path, Version: "v1", Group: payload.Base, SHA256: sum, Size: 1}
	}
	s := &story{
		t: t, ctx: t.Context(), random: rand.New(rand.NewPCG(1, 2)), began: time.Now(), every: 5 * time.Second,
		content: payload.New([]payload.File{file(payload.WICD, storyWICD), file("kubelet.exe", strings.Repeat("b", 64))}, nil, payload.File{}),
		seen:    map[types.NamespacedName]string{}, due: map[types.NamespacedName]time.Time{},
		budgets: map[string]int{}, reasons: documentedReasons(t),
	}
	s.version = desired.Version("1.1.0", s.content.Digest)
	s.cache = newStoryCache(t)
	s.client = s.newClient(r)
	s.live, s.dialer, s.lookup = s.client, s.dial, net.DefaultResolver.LookupNetIP
	key, err := ssh.ParsePrivateKey(controllertest.SSHKey(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= hosts; n++ {
		s.hosts = append(s.hosts, newStoryHost(s, n))
		s.hosts[n-1].keys = []string{sshkey.AuthorizedLine(key)}
	}
	s.startOperator()
	return s
}

// newClient is the cluster: what newTestSettings has, an SSH key, and rules for what the fake client does not know.
func (s *story) newClient(r v1alpha1.RolloutSpec) client.Client {
	s.t.Helper()
	scheme := controllertest.Scheme(s.t)
	// A tracker without managed fields, of which nothing here is: they take most of the time.
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

// createSub evicts pods as their budgets allow, and makes tokens.
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

func (s *story) evicted(pod *corev1.Pod) error {
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
	s.say("pod %s is evicted from %s", pod.Name, pod.Spec.NodeName)
	return s.client.Delete(s.ctx, pod) // its finalizer keeps it for its grace
}

// startOperator starts the operator, or another one after it: nothing but the cluster remembers.
func (s *story) startOperator() {
	cached, log := s.lagging(), kube.NewEvents(storyEvents{s})
	s.registry = prometheus.NewRegistry()
	s.slots, s.names, s.others = &kube.Slots{}, &instance.NameClaims{}, nil
	var (
		resolver = source.NewResolver(func(ctx context.Context, network, name string) ([]netip.Addr, error) {
			return s.lookup(ctx, network, name)
		})
		reserved = source.NewReservedAddresses(cached, s.live, resolver)
		guards   = admission.New(s.live, log, nil)
		network  = settings.NewNetworkCache()
		renders  = func(live client.Reader) *settings.Renderer {
			return &settings.Renderer{Live: live, Namespace: "ns", OperatorVersion: "1.1.0", Content: s.content, Network: network}
		}
	)
	s.store = settings.NewStore(cached, s.client, "ns")
	s.fleet = fleet.New(fleet.Options{
		Client: cached, Events: log, Namespace: "ns", Version: s.version, Content: s.content, Registry: s.registry,
		Store: s.store, Skew: fleet.NewSkew(s.content, func() string { return "v1.36.3" }),
	})
	s.fleet.Plans = make(chan ctrlevent.GenericEvent, 10_000)
	s.instances = instance.New(instance.Options{
		Client: cached, Live: s.live, Events: log, Registry: s.registry, Namespace: "ns", Version: s.version,
		Payload: &payload.Payload{Manifest: s.content}, Content: s.content, Store: settings.NewStore(cached, s.live, "ns"), Renderer: renders(s.live), Policies: guards,
		Fleet: s.fleet, Hosts: source.NewOwnership(resolver, s.announcers...), Resolver: resolver, Reserved: reserved, Slots: s.slots, Names: s.names,
		Dialer: func(ctx context.Context, t remote.Target, o remote.Options) (instance.SSHHost, error) {
			return s.dialer(ctx, t, o)
		},
		Jitter: func(time.Duration) time.Duration { return 0 },
	})
	s.settings = settings.New(settings.Options{
		Client: cached, Live: s.client, Events: log, Namespace: "ns", Store: s.store, Renderer: renders(s.client), Policies: guards,
	})
	s.certificates = csrapproval.New(csrapproval.Options{Client: cached, Live: s.client, Events: log, Namespace: "ns", Reserved: reserved, Policies: guards})
	s.settingsSeen = ""
	s.operated = 0
	clear(s.seen)
	clear(s.due)
	s.fleetSeen = ""
}

// lagging is the client of the controllers, whose cache may not have heard yet of what was written to instances.
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

// forbids is what deploy/admission.yaml says to the operator when it changes or deletes a Node.
func (s *story) forbids(o client.Object) error {
	var is corev1.Node
	if _, isNode := o.(*corev1.Node); !isNode || s.client.Get(s.ctx, client.ObjectKeyFromObject(o), &is) != nil || kube.IsWindows(&is) {
		return nil
	}
	return apierrors.NewForbidden(corev1.Resource("nodes"), o.GetName(), errors.New("the operator changes and deletes Windows nodes only"))
}

// storyEvents writes events into the story.
type storyEvents struct{ *story }

// Eventf implements events.EventRecorder.
func (r storyEvents) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	if kind == corev1.EventTypeWarning || strings.HasPrefix(reason, "Maintenance") || strings.HasPrefix(reason, "Host") && reason != api.EventHostKeyPinned {
		r.say("%s: %s: %s", about.(client.Object).GetName(), reason, text)
	}
}

func (s *story) say(format string, args ...any) {
	at := time.Since(s.began).Round(time.Second)
	s.lines = append(s.lines, fmt.Sprintf("%7s  %s", at, fmt.Sprintf(format, args...)))
}

// publishFormer makes what nodes of the former version have: another kubelet, which means a drain.
func (s *story) publishFormer() {
	s.t.Helper()
	want, err := s.store.Read(s.ctx, s.version, controllertest.ClusterID)
	s.must(err)
	node := want.Node
	node.Version, node.Digest, node.Payload = was, strings.Repeat("c", 64), slices.Clone(node.Payload)
	for i, f := range node.Payload {
		if f.Path == "kubelet.exe" {
			node.Payload[i].SHA256 = strings.Repeat("c", 64)
		}
	}
	data, err := node.Data()
	s.must(err)
	private, err := s.store.SigningKey(s.ctx)
	s.must(err)
	name := api.ServicesConfigMapPrefix + was
	data, err = desired.Sign(data, desired.Statement{Cluster: controllertest.ClusterID, Name: name, Serial: time.Now().UnixMilli()}, private)
	s.must(err)
	s.must(s.client.Create(s.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{api.AnnotationSettings: "former"}}, Data: data,
	}))
}

// publishedKeys are the SSH keys that nodes of a version are to let in, and settings what they come to.
func (s *story) publishedKeys(version string) (keys []string, settings string) {
	var cm corev1.ConfigMap
	if s.client.Get(s.ctx, types.NamespacedName{Namespace: "ns", Name: api.ServicesConfigMapPrefix + version}, &cm) != nil {
		return nil, ""
	}
	node, err := desired.FromData(cm.Data)
	s.must(err)
	return node.AuthorizedKeys, cm.Annotations[api.AnnotationSettings]
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// announce makes instances of hosts.
func (s *story) announce(hosts ...*storyHost) {
	for _, h := range hosts {
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: h.name, Generation: 1}}
		i.Spec.Address, i.Spec.Username = h.address, "Administrator"
		s.must(s.client.Create(s.ctx, i))
	}
}

// settled announces all hosts and lets them become nodes of the former version, with pods on each.
func (s *story) settled(podsEach int) {
	s.announce(s.hosts...)
	s.until("all hosts are nodes", time.Hour, func() bool { return s.ready() == len(s.hosts) })
	for _, h := range s.hosts {
		h.version, h.staged = was, false
		node := s.node(h.name)
		node.Annotations[api.AnnotationVersion], node.Annotations[api.AnnotationDesiredVersion] = was, was
		s.must(s.client.Update(s.ctx, node))
		i := s.instance(h.name)
		i.Status.Payload = v1alpha1.PayloadStatus{}
		s.must(s.client.Status().Update(s.ctx, i))
		for range podsEach {
			s.addPod(h.name, "web")
		}
	}
	s.publishFormer()
	s.lines = nil
	s.began = time.Now()
}

// addPod puts a pod on a node; its finalizer stands for its grace.
func (s *story) addPod(node, app string) {
	s.pods++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("%s-%d", app, s.pods), Labels: map[string]string{"app": app}, Finalizers: []string{"story/grace"},
	}, Spec: corev1.PodSpec{NodeName: node}}
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

// ready counts the nodes that are Ready and schedulable with some version.
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

// at counts the nodes that serve with a version.
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

// until lets time pass until something holds.
func (s *story) until(what string, within time.Duration, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(within); !holds(); {
		if time.Now().After(end) {
			s.t.Fatalf("after %s, not yet: %s\n%s\n%s", within, what, strings.Join(s.lines, "\n"), s.standing())
		}
		s.tick()
	}
}

// pass lets time pass.
func (s *story) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.tick()
	}
}

// standing says how all instances are, for a story that came to nothing.
func (s *story) standing() string {
	var b strings.Builder
	for _, i := range s.allInstances() {
		fmt.Fprintf(&b, "%s: %s %q plan %+v maintenance %+v failure %+v\n", i.Name, kube.Condition(&i, api.ConditionReady).Reason,
			kube.Condition(&i, api.ConditionReady).Message, i.Status.Plan, i.Status.Maintenance, i.Status.Failure)
	}
	return b.String()
}

// tick lets the hosts go on, and then the operator.
func (s *story) tick() {
	s.t.Helper()
	time.Sleep(s.every)
	s.former = maps.Clone(s.cache.objects["WindowsInstance"])
	for _, h := range s.hosts {
		h.goOn()
	}
	s.goOnPods()
	s.operate()
	if s.cache.changes != s.held {
		s.held = s.cache.changes
		s.mustHold()
	}
}

// operate runs the controllers as often as their watches and their own wishes would.
func (s *story) operate() {
	s.t.Helper()
	for range 10 {
		isDue := func(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }
		if s.operated == s.cache.changes && !isDue(s.fleetDue) && !slices.ContainsFunc(slices.Collect(maps.Values(s.due)), isDue) {
			return
		}
		s.operated = s.cache.changes
		if !s.operateOnce() {
			return
		}
	}
}

func (s *story) operateOnce() (did bool) {
	if seen := s.settingsView(); seen != s.settingsSeen {
		s.settingsSeen, did = seen, true
		_, err := s.settings.Reconcile(s.ctx, reconcile.Request{})
		s.must(err)
	}
	if seen := s.fleetView(); seen != s.fleetSeen || !s.fleetDue.IsZero() && !time.Now().Before(s.fleetDue) {
		s.fleetSeen, s.fleetDue, did = seen, time.Time{}, true
		result, err := s.fleet.Reconcile(s.ctx, reconcile.Request{})
		s.must(err)
		if result.RequeueAfter > 0 {
			s.fleetDue = time.Now().Add(result.RequeueAfter)
		}
	}
	wanted := map[types.NamespacedName]bool{}
	for len(s.fleet.Plans) > 0 {
		wanted[client.ObjectKeyFromObject((<-s.fleet.Plans).Object)] = true
	}
	all := s.allInstances()
	s.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, i := range all {
		id := client.ObjectKeyFromObject(&i)
		seen := s.instanceView(&i)
		isDue := !s.due[id].IsZero() && !time.Now().Before(s.due[id])
		if seen == s.seen[id] && !isDue && !wanted[id] {
			continue
		}
		s.seen[id], did = seen, true
		delete(s.due, id)
		result, err := s.instances.Reconcile(s.ctx, reconcile.Request{NamespacedName: id})
		switch {
		case err != nil && !apierrors.IsConflict(err):
			s.t.Fatalf("%s: %v", i.Name, err)
		case err != nil:
			s.due[id] = time.Now()
		case result.RequeueAfter > 0:
			s.due[id] = time.Now().Add(result.RequeueAfter)
		}
	}
	return did
}

// instanceView is what the watches of the instances' controller would see of an instance.
func (s *story) instanceView(i *v1alpha1.WindowsInstance) string {
	view := fmt.Sprint(i.Generation, i.Annotations, i.DeletionTimestamp, i.Status.Hostname)
	if cm, there := s.cache.objects["ConfigMap"][client.ObjectKey{Namespace: "ns", Name: api.ServicesConfigMapPrefix + s.version}]; there {
		view += cm.GetAnnotations()[api.AnnotationSettings] // one that is made anew brings them all
	}
	var node corev1.Node
	if i.Status.Hostname != "" && s.client.Get(s.ctx, types.NamespacedName{Name: i.Status.Hostname}, &node) == nil {
		view += node.ResourceVersion
	}
	return view
}

// settingsView is what the watches of the settings' controller would see.
func (s *story) settingsView() string {
	view := fmt.Sprint(s.rules().Spec, s.cache.version("WindowsConfig", api.WindowsConfigName))
	for _, name := range []string{api.PrivateKeySecret, api.SigningKeySecret} {
		if secret, there := s.cache.objects["Secret"][client.ObjectKey{Namespace: "ns", Name: name}]; there {
			view += " " + secret.GetResourceVersion()
		}
	}
	return view
}

// rules is the WindowsConfig.
func (s *story) rules() *v1alpha1.WindowsConfig {
	s.t.Helper()
	var config v1alpha1.WindowsConfig
	s.must(s.client.Get(s.ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config))
	return &config
}

// fleetView is what the watches of the fleet's controller would see.
func (s *story) fleetView() string {
	var b strings.Builder
	for _, i := range s.allInstances() {
		b.WriteString(i.ResourceVersion + " ")
	}
	for _, n := range s.nodes() {
		seen := rollout.NodeOf(&n)
		fmt.Fprint(&b, *seen)
	}
	fmt.Fprint(&b, s.rules().Spec)
	return b.String()
}

// goOn is what a host does by itself: its kubelet reports, WICD goes to another version.
func (h *storyHost) goOn() {
	s := h.story
	state := fmt.Sprint(s.cache.version("Node", h.name), h.serves(), h.version, s.cache.settings)
	if state == h.state && h.goesTo == "" && h.joinedAt.Add(time.Minute).Before(time.Now()) {
		return // nothing happened
	}
	h.state = state
	var node corev1.Node
	err := s.client.Get(s.ctx, types.NamespacedName{Name: h.name}, &node)
	if apierrors.IsNotFound(err) {
		if h.serves() && time.Since(h.joinedAt) >= 10*time.Second {
			h.register()
		}
		return
	}
	s.must(err)
	changed := node.DeepCopy()
	h.report(changed)
	if fmt.Sprint(changed.Status, changed.Annotations) == fmt.Sprint(node.Status, node.Annotations) {
		return
	}
	status := changed.Status
	s.must(s.client.Patch(s.ctx, changed, client.MergeFrom(&node)))
	changed.Status = status
	s.must(s.client.Status().Update(s.ctx, changed))
}

func (h *storyHost) register() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name, UID: types.UID(h.name + h.joinedAt.String()), Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	node.Annotations = map[string]string{api.AnnotationVersion: h.version}
	h.story.must(h.story.client.Create(h.story.ctx, node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.address}}
	controllertest.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, "")
	node.Status.NodeInfo.BootID = strconv.Itoa(h.bootID)
	h.story.must(h.story.client.Status().Update(h.story.ctx, node))
}

// report is what kubelet, WICD and the node's lifecycle controller write.
func (h *storyHost) report(node *corev1.Node) {
	if !h.serves() {
		controllertest.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionUnknown, "no heartbeat")
		return
	}
	controllertest.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, "")
	node.Status.NodeInfo.BootID = strconv.Itoa(h.bootID)
	if h.others {
		return
	}
	wants := node.Annotations[api.AnnotationDesiredVersion]
	switch {
	case wants == "" || wants == h.version:
		h.goesTo, h.refused = "", ""
		controllertest.SetNodeCondition(node, api.ConditionUpdated, corev1.ConditionTrue, "")
	case wants != h.goesTo && wants != h.refused && h.trusts(wants):
		h.goesTo, h.goesAt = wants, time.Now().Add(20*time.Second)
		h.story.mustBeDrained(h, true, "went to another version")
	case h.goesTo != "" && !time.Now().Before(h.goesAt):
		h.arrive(node)
	}
	node.Annotations[api.AnnotationVersion] = h.version
	h.follow(node)
}

// follow comes to the settings of the host's version: of the SSH keys, it lets in those that are wanted, and drops others once one of
// them is proven.
func (h *storyHost) follow(node *corev1.Node) {
	if !h.trusts(h.version) {
		return
	}
	keys, settings := h.story.publishedKeys(h.version)
	if settings == "" || node.Annotations[api.AnnotationSettings] == settings && !h.isProven(node, keys) {
		return
	}
	node.Annotations[api.AnnotationSettings] = settings
	for _, key := range keys {
		if !slices.Contains(h.keys, key) {
			h.keys = append(h.keys, key)
			h.story.say("%s lets in another key", h.name)
		}
	}
	if h.isProven(node, keys) {
		h.keys = keys
		h.story.say("%s drops the former key", h.name)
	}
}

// trusts says whether what is published for a version is signed with the key that the host knows.
func (h *storyHost) trusts(version string) bool {
	var cm corev1.ConfigMap
	name := types.NamespacedName{Namespace: "ns", Name: api.ServicesConfigMapPrefix + version}
	if h.story.client.Get(h.story.ctx, name, &cm) != nil {
		return true // it is about to be
	}
	_, err := desired.Verify(cm.Data, h.signingKey)
	return err == nil
}

// isProven says that the host has keys to drop.
func (h *storyHost) isProven(node *corev1.Node, keys []string) bool {
	isHash := func(key string) bool {
		sum := sha256.Sum256([]byte(key))
		return hex.EncodeToString(sum[:]) == node.Annotations[api.AnnotationPubKeyHash]
	}
	return slices.ContainsFunc(keys, isHash) && !slices.Equal(h.keys, keys)
}

// arrive ends an update: with the other version, or back.
func (h *storyHost) arrive(node *corev1.Node) {
	if h.goesTo == h.refuses {
		h.story.say("%s went to %s in vain", h.name, h.goesTo)
		h.refused, h.goesTo = h.goesTo, ""
		controllertest.SetNodeCondition(node, api.ConditionUpdated, corev1.ConditionFalse, "service kubelet does not start: flag provided but not defined")
		return
	}
	h.version, h.goesTo = h.goesTo, ""
	h.story.say("%s has version %s", h.name, h.version)
}

// goOnPods ends pods whose grace is over, and makes new ones where there is room.
func (s *story) goOnPods() {
	for _, o := range s.cache.sorted("Pod") {
		pod := o.DeepCopyObject().(*corev1.Pod)
		if pod.DeletionTimestamp == nil || time.Since(pod.DeletionTimestamp.Time) < 10*time.Second || !s.isUp(pod.Spec.NodeName) || slices.Contains(pod.Finalizers, "story/stuck") {
			continue
		}
		pod.Finalizers = nil
		s.must(s.client.Update(s.ctx, pod))
		for _, node := range s.nodes() {
			if !node.Spec.Unschedulable && s.isUp(node.Name) && s.budgetOf(pod.Labels["app"]) {
				s.addPod(node.Name, pod.Labels["app"])
				break
			}
		}
	}
}

func (s *story) budgetOf(app string) bool {
	if _, limited := s.budgets[app]; limited {
		s.budgets[app]++
	}
	return true
}

func (s *story) isUp(node string) bool {
	return slices.ContainsFunc(s.hosts, func(h *storyHost) bool { return h.name == node && h.serves() })
}

// mustBeDrained fails the story when something is done to a host whose pods could mind.
func (s *story) mustBeDrained(h *storyHost, matters bool, what string) {
	s.t.Helper()
	var node corev1.Node
	if !matters || s.client.Get(s.ctx, types.NamespacedName{Name: h.name}, &node) != nil || !kube.IsWindows(&node) {
		return
	}
	seen := rollout.NodeOf(&node)
	if pods := drain.Look(s.podsOn(h.name), time.Now()); seen.Ready && (!pods.Gone() || !seen.Unschedulable) {
		s.t.Errorf("%s %s with %d pods on it, cordoned: %v", h.name, what, len(s.podsOn(h.name)), seen.Unschedulable)
	}
}

// watchNode looks, when the operator changes a node, whether it takes one out of service too many.
func (s *story) watchNode(name string) func() {
	before := s.out()
	return func() {
		after := s.out()
		nodes := rollout.Fleet{Policy: fleet.Policy(s.rules().Spec.Rollout, s.version), Now: time.Now()}
		for _, n := range s.seenNodes() {
			nodes.Hosts = append(nodes.Hosts, rollout.Host{Name: n.Name, Node: &n})
		}
		budget := int(rollout.Decide(nodes).Summary.MaxUnavailable)
		switch {
		case after > before && after > budget:
			s.t.Errorf("%s is the %dth node out of service, %d are allowed\n%s", name, after, budget, strings.Join(s.lines, "\n"))
		case after > before:
			s.say("%s is cordoned", name)
		case after < before:
			s.say("%s is back in service", name)
		}
	}
}

// seenNodes are the nodes of the story's hosts.
func (s *story) seenNodes() []rollout.Node {
	var seen []rollout.Node
	for _, n := range s.nodes() {
		if slices.ContainsFunc(s.hosts, func(h *storyHost) bool { return h.name == n.Name }) {
			seen = append(seen, *rollout.NodeOf(&n))
		}
	}
	return seen
}

// out counts the nodes that take no pods.
func (s *story) out() int {
	n := 0
	for _, node := range s.seenNodes() {
		if !node.Ready || node.Unschedulable {
			n++
		}
	}
	return n
}

// mustHold looks at what must hold after each tick.
func (s *story) mustHold() {
	s.t.Helper()
	for _, i := range s.allInstances() {
		for _, c := range i.Status.Conditions {
			if !s.reasons[c.Reason] {
				s.t.Errorf("%s: condition %s has reason %q, which is not documented", i.Name, c.Type, c.Reason)
			}
		}
		if p := i.Status.Plan; p != nil && p.WaitsFor != "" && !s.reasons[p.WaitsFor] {
			s.t.Errorf("%s waits for %q, which is not documented", i.Name, p.WaitsFor)
		}
	}
	if s.t.Failed() {
		s.t.Fatalf("the story so far:\n%s\n%s", strings.Join(s.lines, "\n"), s.standing())
	}
}

// mustBeQuiet looks whether controllers that have nothing to do write nothing.
func (s *story) mustBeQuiet() {
	s.t.Helper()
	s.pass(time.Minute)
	before := s.writes
	_, err := s.fleet.Reconcile(s.ctx, reconcile.Request{})
	s.must(err)
	for _, i := range s.allInstances() {
		_, err := s.instances.Reconcile(s.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&i)})
		s.must(err)
	}
	if n := s.writes - before; n > 0 {
		s.t.Errorf("without a change, %d writes\n%s", n, s.standing())
	}
}

// documentedReasons are the constants of package v1alpha1 whose name begins with Reason or Event.
func documentedReasons(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "api", "conditions.go"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:Reason|Event)\w+\s*=\s*"(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		reasons[m[1]] = true
	}
	return reasons
}
