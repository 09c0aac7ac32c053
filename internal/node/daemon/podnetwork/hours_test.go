package podnetwork

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// TestHoursOfServices simulates hours of a node in a cluster whose users create, change and delete Services at random, whose API server, watches
// and kube-proxy lag and stall, and whose Windows refuses load balancers. As long as Windows loses nothing, nothing may be repaired. Losses are
// repaired, as far as the number of restarts allows. WMCO_HOURS sets the number of hours; make bench simulates 1,000.
func TestHoursOfServices(t *testing.T) {
	hours := 8
	if text := os.Getenv("WMCO_HOURS"); text != "" {
		var err error
		if hours, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	const each = 2 // hours of one seed
	worlds := make([]*world, (hours+each-1)/each)
	var work sync.WaitGroup
	for part := range runtime.NumCPU() {
		work.Go(func() {
			for seed := part; seed < len(worlds); seed += runtime.NumCPU() {
				w := newWorld(uint64(seed), seed%4 == 3)
				for worlds[seed] = w; w.now.Sub(w.began) < each*time.Hour; {
					w.step()
				}
			}
		})
	}
	work.Wait()
	total := tally{}
	for seed, w := range worlds {
		if len(w.wrong) > 0 {
			t.Errorf("seed %d, Windows loses load balancers: %v: %s", seed, w.loses, strings.Join(w.wrong[:min(5, len(w.wrong))], "\n"))
		}
		total.add(w.tally)
	}
	t.Logf("%d hours: %d false restarts, %d false removals, %d losses, %d restarts for them, %d passes, %d changes of objects",
		hours, total.falseRestarts, total.falseRemovals, total.losses, total.restarts, total.passes, total.changes)
	if total.passes == 0 || total.changes == 0 || total.losses == 0 || total.restarts == 0 {
		t.Error("nothing was simulated")
	}
}

type tally struct{ falseRestarts, falseRemovals, losses, restarts, passes, changes int }

func (t *tally) add(o tally) {
	t.falseRestarts += o.falseRestarts
	t.falseRemovals += o.falseRemovals
	t.losses += o.losses
	t.restarts += o.restarts
	t.passes += o.passes
	t.changes += o.changes
}

// world is a cluster and one of its nodes, in simulated time.
type world struct {
	tally
	random     *rand.Rand
	loses      bool
	began, now time.Time
	// services and slices are those in the API server.
	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
	numbers  int
	versions int
	// daemon and proxy deliver them, each with its own watch.
	daemon, proxy watch
	front         *frontends
	memory        *networkMemory
	state         hns.State
	nextPass      time.Time
	kube          fakeProxy
	// apiUnavailableUntil is when the API server answers again.
	apiUnavailableUntil time.Time
	// lost are frontends whose load balancers Windows has lost.
	lost  map[kubeproxy.Frontend]time.Time
	wrong []string
}

// watch has the queued notifications, with their times.
type watch struct {
	queue        []notification
	stalledUntil time.Time
}

type notification struct {
	at   time.Time
	name string
	// Both are nil after a deletion.
	service *corev1.Service
	slice   *discoveryv1.EndpointSlice
	isSlice bool
}

func newWorld(seed uint64, loses bool) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), loses: loses, began: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), services: map[string]*corev1.Service{},
		slices: map[string]*discoveryv1.EndpointSlice{}, front: newFrontends("win-1"), memory: newNetworkMemory(), state: healthy(0),
		lost: map[kubeproxy.Frontend]time.Time{},
	}
	w.now, w.nextPass = w.began, w.began
	w.front.servicesListed, w.front.slicesListed = true, true
	w.kube.refused = map[string]time.Time{}
	w.startProxy()
	for range 25 {
		w.createService()
	}
	return w
}

func (w *world) one(in int) bool { return w.random.IntN(in) == 0 }

// step simulates one second.
func (w *world) step() {
	w.now = w.now.Add(time.Second)
	w.users()
	w.simulateDisruptions()
	w.deliver(&w.daemon, w.notifyDaemon)
	w.deliver(&w.proxy, w.kube.notify)
	w.programs()
	if !w.now.Before(w.nextPass) {
		w.pass()
	}
}

// users change something about every twenty seconds, and sometimes much at once.
func (w *world) users() {
	if !w.one(20) {
		return
	}
	changes := 1
	if w.one(60) {
		changes = 60
	}
	for range changes {
		w.changes++
		switch {
		case len(w.services) < 5 || w.one(8):
			w.createService()
		case w.one(8):
			w.deleteService(w.any())
		case w.one(4):
			w.changeService(w.any())
		default:
			w.changeEndpoints(w.any())
		}
	}
}

// simulateDisruptions simulates disruptions of watches, the API server, kube-proxy and Windows.
func (w *world) simulateDisruptions() {
	stall := func(in int, longest time.Duration, until *time.Time) {
		if w.one(in) {
			*until = w.now.Add(time.Duration(w.random.Int64N(int64(longest))))
		}
	}
	stall(3600, 4*time.Minute, &w.daemon.stalledUntil)
	stall(3600, 4*time.Minute, &w.proxy.stalledUntil) // an unresponsive connection is dropped within a minute
	stall(7200, 5*time.Minute, &w.apiUnavailableUntil)
	if w.one(1800) {
		w.kube.refused[w.any()] = w.now.Add(time.Duration(w.random.Int64N(int64(time.Hour))))
	}
	if w.one(4 * 3600) { // the service manager restarts it
		w.startProxy()
	}
	if w.one(4 * 3600) { // the endpoint of a pod of this host comes or goes with the pod
		i := slices.IndexFunc(w.state.Endpoints, func(e hns.Endpoint) bool { return e.ID == "pod" })
		if i >= 0 {
			w.state.Endpoints = slices.Delete(w.state.Endpoints, i, i+1)
		} else {
			w.state.Endpoints = append(w.state.Endpoints, hns.Endpoint{ID: "pod", Network: "n1", Name: "pod", Address: addr("10.132.1.5")})
		}
	}
	if w.loses && w.one(2*3600) && len(w.state.LoadBalancers) > 0 {
		w.losses++
		i := w.random.IntN(len(w.state.LoadBalancers))
		for front := range backendsIn(hns.State{LoadBalancers: w.state.LoadBalancers[i : i+1]}) {
			w.lost[front] = w.now
		}
		w.state.LoadBalancers = slices.Delete(slices.Clone(w.state.LoadBalancers), i, i+1)
	}
}

func (w *world) any() string {
	names := slices.Sorted(maps.Keys(w.services))
	return names[w.random.IntN(len(names))]
}

func (w *world) createService() {
	w.numbers++
	name := fmt.Sprintf("s%d", w.numbers)
	s := serviceNamed(name, fmt.Sprintf("10.96.%d.%d", w.numbers/200%200+1, w.numbers%200+1))
	if w.one(4) {
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(30000+w.numbers%2000)
	}
	w.services[name] = s
	w.notify(notification{name: name, service: s})
	w.changeEndpoints(name)
}

func (w *world) deleteService(name string) {
	delete(w.services, name)
	w.notify(notification{name: name})
	delete(w.slices, name)
	w.notify(notification{name: name, isSlice: true})
}

func (w *world) changeService(name string) {
	s := w.services[name].DeepCopy()
	switch w.random.IntN(4) {
	case 0:
		s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": ""}
	case 1:
		s.Labels = nil
	case 2:
		s.Spec.ExternalIPs = []string{fmt.Sprintf("203.0.113.%d", w.random.IntN(250)+1)}
	case 3:
		local := corev1.ServiceInternalTrafficPolicyLocal
		if s.Spec.InternalTrafficPolicy = &local; w.one(2) {
			s.Spec.InternalTrafficPolicy = nil
		}
	}
	w.services[name] = s
	w.notify(notification{name: name, service: s})
}

func (w *world) changeEndpoints(name string) {
	e := endpointsOf(name, "10.132.9.9", true)
	e.Endpoints = nil
	yes, no, node := true, false, "win-1"
	for range w.random.IntN(4) {
		end := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.132.%d.%d", 2+w.random.IntN(3), 2+w.random.IntN(200))}}
		switch w.random.IntN(6) {
		case 0:
			end.Conditions.Ready, end.Conditions.Serving = &yes, &no // published although not ready
		case 1:
			end.Conditions.Ready, end.Conditions.Terminating = &no, &yes
		case 2:
			end.Addresses[0], end.NodeName = "192.0.2.10", &node // the network of this host
		case 3:
			end.Addresses[0], end.NodeName = "10.132.1.5", &node
		}
		e.Endpoints = append(e.Endpoints, end)
	}
	w.slices[name] = e
	w.notify(notification{name: name, slice: e, isSlice: true})
}

// notify makes both watches deliver a change, some time later.
func (w *world) notify(t notification) {
	w.versions++
	version := strconv.Itoa(w.versions)
	if t.service != nil {
		t.service.ResourceVersion = version
	}
	if t.slice != nil {
		t.slice.ResourceVersion = version
	}
	for _, to := range []*watch{&w.daemon, &w.proxy} {
		t.at = w.now.Add(time.Duration(w.random.Int64N(int64(2 * time.Second))))
		to.queue = append(to.queue, t)
	}
}

func (w *world) deliver(from *watch, to func(notification, time.Time)) {
	for len(from.queue) > 0 && !from.queue[0].at.After(w.now) && !w.now.Before(from.stalledUntil) {
		to(from.queue[0], w.now)
		from.queue = from.queue[1:]
	}
}

func (w *world) notifyDaemon(t notification, now time.Time) {
	name := types.NamespacedName{Namespace: "ns", Name: t.name}
	switch {
	case t.slice != nil:
		w.front.readSlice(t.slice, now)
	case t.service != nil:
		w.front.readService(t.service, now)
	case t.isSlice:
		w.front.removeSlice(types.NamespacedName{Namespace: "ns", Name: t.name + "-x"}, now)
	default:
		w.front.putService(name, nil, "", now)
	}
}

func (w *world) pass() {
	w.passes++
	v := networkView{now: w.now, state: w.state, cluster: w.front, proxy: w.kube.process}
	p := w.memory.decide(overlayWanted(), &v, queryFuncs{
		query:       w.answer,
		readObjects: func([]string) *objectView { return &objectView{second: w.state, after: w.state} },
		now:         func() time.Time { return w.now },
	})
	w.restarted(p)
	w.removed(p)
	w.nextPass = w.now.Add(waitAfter(&p, 0))
}

// restarted checks that a restart follows a loss.
func (w *world) restarted(p networkPlan) {
	reason := p.restart["proxy"]
	if reason == "" {
		return
	}
	if len(w.lost) == 0 {
		w.falseRestarts++
		w.wrong = append(w.wrong, fmt.Sprintf("%v: kube-proxy is restarted: %s: %v", w.now.Sub(w.began), reason, p.problems))
	}
	w.restarts++
	w.startProxy()
}

func nameOfObject(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// readObject stores a Service or an EndpointSlice.
func readObject(f *frontends, o metav1.Object, now time.Time) {
	switch o := o.(type) {
	case *corev1.Service:
		f.readService(o, now)
	case *discoveryv1.EndpointSlice:
		f.readSlice(o, now)
	}
}

// removed checks that no Service owns what is removed.
func (w *world) removed(p networkPlan) {
	owned := newFrontends("win-1")
	w.each(func(o metav1.Object) { readObject(owned, o, w.now) })
	checkOwner := func(a netip.Addr, id string) {
		if owned.owns(a) {
			w.falseRemovals++
			w.wrong = append(w.wrong, fmt.Sprintf("%v: %s with address %s is removed", w.now.Sub(w.began), id, a))
		}
	}
	gone := map[string]bool{}
	for _, b := range p.remove.LoadBalancers {
		checkOwner(b.VIPs[0], b.ID)
		gone[b.ID] = true
	}
	for _, e := range p.remove.Endpoints {
		checkOwner(e.Address, e.ID)
		gone[e.ID] = true
	}
	if len(gone) > 0 {
		w.state.LoadBalancers = slices.DeleteFunc(slices.Clone(w.state.LoadBalancers), func(b hns.LoadBalancer) bool { return gone[b.ID] })
		w.state.Endpoints = slices.DeleteFunc(slices.Clone(w.state.Endpoints), func(e hns.Endpoint) bool { return gone[e.ID] })
	}
}

func (w *world) each(do func(metav1.Object)) {
	for _, s := range w.services {
		do(s)
	}
	for _, e := range w.slices {
		do(e)
	}
}

// answer returns what the API server has now.
func (w *world) answer(q queries) *evidence {
	if w.now.Before(w.apiUnavailableUntil) {
		return &evidence{err: errNoClient}
	}
	e := &evidence{lost: map[kubeproxy.Frontend]bool{}, owned: newFrontends("win-1")}
	w.each(func(o metav1.Object) { readObject(e.owned, o, time.Time{}) })
	expected := e.owned.expected(w.now, 0, presenceIn(w.state, "n1"))
	for front, name := range q.lost {
		c := e.owned.services[name]
		_, isExpected := expected[front]
		e.lost[front] = isExpected && w.front.isCurrent(name, c.versions)
	}
	return e
}
