package storytest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/csrapproval"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/fleet"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/payload"
)

// startOperator starts the operator, or restarts it: only the cluster keeps state.
func (s *story) startOperator() {
	cached, log := s.lagging(), kube.NewEvents(storyEvents{s})
	s.registry = prometheus.NewRegistry()
	s.releases = clusterversion.New(kubeversions.Of("1.1.0", s.content), func(context.Context) []string { return s.apiServers }, s.kubelets)
	s.released = s.releases.Changed()
	s.releases.Update(s.ctx)
	s.version = controllertest.Version(s.releases)
	s.slots, s.names, s.others = &kube.Slots{}, &instance.NameClaims{}, nil
	var (
		resolver = source.NewResolver(func(ctx context.Context, network, name string) ([]netip.Addr, error) {
			return s.lookup(ctx, network, name)
		})
		reserved = source.NewReservedAddresses(cached, s.live, cluster.Connection{}, resolver)
		guards   = admission.New(s.live, log, nil)
		hosts    = source.NewOwnership(resolver, s.announcers...)
		known    = settings.NewClusterCache()
		renders  = func(live client.Reader) *settings.Renderer {
			return &settings.Renderer{Live: live, Nodes: live, Namespace: "ns", Releases: s.releases, Cluster: known}
		}
	)
	s.store = settings.NewStore(cached, s.client, "ns")
	s.fleet = fleet.New(fleet.Options{
		Client: cached, Events: log, Namespace: "ns", Releases: s.releases, Registry: s.registry,
		Store: s.store,
	})
	s.fleet.Plans = make(chan ctrlevent.GenericEvent, 10_000)
	s.instances = instance.New(instance.Options{
		Client: cached, Live: s.live, Events: log, Registry: s.registry, Namespace: "ns", Releases: s.releases,
		Payload: &payload.Payload{Manifest: s.content}, Store: settings.NewStore(cached, s.live, "ns"), Renderer: renders(s.live), Policies: guards,
		Fleet: s.fleet, Hosts: hosts, Resolver: resolver, Reserved: reserved, Slots: s.slots, Names: s.names,
		Dialer: func(ctx context.Context, t remote.Target, o remote.Options) (instance.SSHHost, error) {
			return s.dialer(ctx, t, o)
		},
		Jitter: func(time.Duration) time.Duration { return 0 },
	})
	s.settings = settings.New(settings.Options{
		Client: cached, Live: s.client, Events: log, Namespace: "ns", Store: s.store, Renderer: renders(s.client), Policies: guards, Registry: s.registry,
	})
	s.certificates = csrapproval.New(csrapproval.Options{Client: cached, Live: s.client, Events: log, Namespace: "ns", Reserved: reserved, Policies: guards, Settings: s.store, Registry: s.registry})
	s.sources = source.Options{Client: cached, Live: s.live, Events: log, Namespace: "ns", Hosts: hosts, Reserved: reserved}
	s.settingsSeen = ""
	s.operated = 0
	clear(s.seen)
	clear(s.due)
	s.fleetSeen = ""
}

// kubelets returns the kubelet versions that nodes report.
func (s *story) kubelets(context.Context) (versions []string, err error) {
	for _, node := range s.nodes() {
		versions = append(versions, node.Status.NodeInfo.KubeletVersion)
	}
	return versions, nil
}

// until lets time pass until holds returns true.
func (s *story) until(what string, within time.Duration, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(within); !holds(); {
		if time.Now().After(end) {
			s.t.Fatalf("not reached after %s: %s\n%s\n%s", within, what, strings.Join(s.lines, "\n"), s.summary())
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

// summary describes all instances, for failed stories.
func (s *story) summary() string {
	var b strings.Builder
	for _, i := range s.allInstances() {
		fmt.Fprintf(&b, "%s: %s %q plan %+v maintenance %+v failure %+v\n", i.Name, kube.Condition(&i, api.ConditionReady).Reason,
			kube.Condition(&i, api.ConditionReady).Message, i.Status.Plan, i.Status.Maintenance, i.Status.Failure)
	}
	return b.String()
}

// tick advances time, hosts and pods, and then runs the operator.
func (s *story) tick() {
	s.t.Helper()
	time.Sleep(s.every)
	s.former = maps.Clone(s.cache.objects["WindowsInstance"])
	for _, h := range s.hosts {
		h.advance()
	}
	s.advancePods()
	s.operate()
	if s.cache.changes != s.held {
		s.held = s.cache.changes
		s.mustHold()
	}
}

// operate runs the controllers when their watches or requeue times would.
func (s *story) operate() {
	s.t.Helper()
	s.releases.Update(s.ctx)
	for len(s.released) > 0 {
		<-s.released
		s.operated = -1
	}
	s.version = controllertest.Version(s.releases)
	s.reported = "" // the settings controller checks node reports once per interval; this is what it sees
	for _, node := range s.nodes() {
		got := node.Annotations
		s.reported += strings.Join([]string{" ", got[api.AnnotationVersion], got[api.AnnotationDesiredVersion], got[api.AnnotationSettings], node.Spec.ProviderID}, " ")
	}
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

// instanceView returns what the watches of the instance controller would see of an instance.
func (s *story) instanceView(i *v1alpha1.WindowsInstance) string {
	_, finding := s.releases.Current()
	view := fmt.Sprint(i.Generation, i.Annotations, i.DeletionTimestamp, i.Status.Hostname, s.version, finding)
	if cm, found := s.cache.objects["ConfigMap"][client.ObjectKey{Namespace: "ns", Name: api.ServicesConfigMapPrefix + s.version}]; found {
		view += cm.GetAnnotations()[api.AnnotationSettings] // recreated settings requeue all instances
	}
	var node corev1.Node
	if i.Status.Hostname != "" && s.client.Get(s.ctx, types.NamespacedName{Name: i.Status.Hostname}, &node) == nil {
		view += node.ResourceVersion
	}
	return view
}

// settingsView returns what the watches of the settings controller would see.
func (s *story) settingsView() string {
	rules := s.rules()
	view := fmt.Sprint(rules.Generation, rules.Annotations, rules.Spec, s.version)
	for _, name := range []string{api.PrivateKeySecret, api.SigningKeySecret} {
		if secret, found := s.cache.objects["Secret"][client.ObjectKey{Namespace: "ns", Name: name}]; found {
			view += " " + secret.GetResourceVersion()
		}
	}
	return view + s.reported
}

// fleetView returns what the watches of the fleet controller would see.
func (s *story) fleetView() string {
	var b strings.Builder
	for _, i := range s.allInstances() {
		b.WriteString(i.ResourceVersion + " ")
	}
	for _, n := range s.nodes() {
		seen := rollout.NodeOf(&n)
		fmt.Fprint(&b, *seen)
	}
	_, finding := s.releases.Current()
	fmt.Fprint(&b, s.rules().Spec, s.version, finding)
	return b.String()
}
