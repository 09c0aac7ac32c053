//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/guestapi"
	"github.com/windows-machine-config/wmco/lab/hns"
	"github.com/windows-machine-config/wmco/lab/world"
)

// The apps of TestWindowsFleet.
const (
	appWeb   = "web"   // three pods behind a budget, whose clients notice everything
	appAgent = "agent" // a pod on each node
	appSlow  = "slow"  // a pod that uses its grace
)

// slowGrace is how many seconds the slow pod goes on once it is asked to stop: longer than the 30 s that pods have by default, but with -short.
func slowGrace() int {
	if testing.Short() {
		return 5
	}
	return 40
}

// TestWindowsFleet takes Windows hosts that run pods through what happens to a fleet: another kubelet and back, another SSH key, a
// restart that a user asks for, the end of one, and its return as a Machine. There are three, or with -short two.
func TestWindowsFleet(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	hosts := 3
	if testing.Short() {
		hosts = 2
	}
	p := newPlace(t, world.Options{WineHosts: hosts, Pods: true})
	one := intstr.FromInt32(1)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.MaxUnavailable = &one })
	fresh := takeSnapshot(t, p.lastHost())
	p.joinAll()
	p.startApps()
	p.expectApps()
	watch, outages := p.watchBudget(1), p.watchOutages()

	const mark = "second"
	isMarked := func(program []byte) bool { return bytes.HasSuffix(program, []byte(mark)) }
	passed := t.Run("another kubelet", func(t *testing.T) {
		p := p.in(t)
		dir, err := p.AnotherPayload(mark, "kubelet.exe")
		if err != nil {
			t.Fatal(err)
		}
		p.roll(dir, watch, outages)
		p.expectKubelets(isMarked)
	}) &&
		t.Run("another SSH key", func(t *testing.T) { p.in(t).anotherKey(watch) }) &&
		t.Run("the first kubelet again", func(t *testing.T) {
			p := p.in(t)
			for _, host := range p.Lab.Hosts() {
				p.expectGuardGone(host) // else it is waited for with the node drained: updates come not that soon
			}
			p.roll(p.Payload, watch, outages)
			p.expectKubelets(func(program []byte) bool { return !isMarked(program) })
		}) &&
		t.Run("a restart that a user asks for", func(t *testing.T) { p.in(t).restartOnDemand() }) &&
		t.Run("a host that leaves is as it was", func(t *testing.T) { p.in(t).leaveNoTrace(fresh) }) &&
		t.Run("and comes back as a Machine", func(t *testing.T) { p.in(t).comeAsMachine() })
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
	if !passed {
		t.Log("what comes after a step that failed was not tried")
	}
}

// startApps starts what runs on the nodes all the time.
func (p place) startApps() {
	p.t.Helper()
	ctx := p.t.Context()
	_, err := p.WinWebserver(ctx, appWeb, 3, func(d *appsv1.Deployment) {
		// Clients learn that a pod ends when its program does at the earliest: one that is to lose no request goes on for a moment.
		d.Spec.Template.Spec = world.WebserverPod("GRACE_SECONDS=2")
	})
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = p.WinWebserver(ctx, appSlow, 1, func(d *appsv1.Deployment) {
		grace := int64(60)
		d.Spec.Template.Spec = world.WebserverPod(fmt.Sprintf("GRACE_SECONDS=%d", slowGrace()))
		d.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		d.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = "win-2" // so that it is asked once
	})
	if err != nil {
		p.t.Fatal(err)
	}
	two := intstr.FromInt32(2)
	labels := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: appWeb}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: labels(appWeb)}
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: appAgent}}
	daemons.Spec.Selector = labels(appAgent)
	daemons.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(appAgent).MatchLabels}, Spec: world.WebserverPod()}
	for _, object := range []client.Object{budget, daemons} {
		p.create(object)
	}
}

// expectApps waits until all pods serve.
func (p place) expectApps() {
	p.t.Helper()
	for app, count := range map[string]int{appWeb: 3, appSlow: 1, appAgent: len(p.Hosts())} {
		p.expectServing(app, count)
	}
}

// expectServing waits until an app has so many pods and all of them serve, and returns them.
func (p place) expectServing(app string, count int) []corev1.Pod {
	p.t.Helper()
	return p.ExpectServing(p.t, patience, app, count)
}

// roll has an operator with another payload bring its kubelet to all nodes.
func (p place) roll(dir string, watch *budgetWatch, outages *outageWatch) {
	p.t.Helper()
	was, cordons := p.reported("win-1"), watch.cordons()
	slow := p.expectServing(appSlow, 1)[0]
	log := make(chan string, 1)
	go func() {
		text, err := p.Logs(p.t.Context(), &slow, true)
		log <- fmt.Sprint(text, err)
	}()
	agents := p.expectServing(appAgent, len(p.Hosts()))
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	p.restartWith(dir)
	p.expectVersion(func(is string) bool { return is != was })
	p.expectRolledOut()
	p.expectNoFailures(traffic)
	p.logOutages(outages)
	if n := watch.cordons() - cordons; n != len(p.Hosts()) {
		p.t.Errorf("%d cordons were seen, want one for each of %d nodes", n, len(p.Hosts()))
	}
	if text, want := <-log, fmt.Sprintf("has used %d s of its grace", slowGrace()); !strings.Contains(text, want) {
		p.t.Errorf("the log of %s is %q, want %q in it", slow.Name, text, want)
	}
	took := outages.lasted(slow.UID)
	p.t.Logf("pod %s was gone %s after it was asked to stop", slow.Name, took.Round(100*time.Millisecond))
	if took < time.Duration(slowGrace())*time.Second {
		p.t.Errorf("pod %s was gone too early: its grace is %d s", slow.Name, slowGrace())
	}
	p.expectSameContainers(agents)
	p.expectApps()
}

// expectRolledOut waits until nothing is under way and no node is cordoned.
func (p place) expectRolledOut() {
	p.t.Helper()
	p.eventually("nothing is under way", func(context.Context) string {
		for _, i := range p.instances() {
			if now := i.Status.Maintenance; now != nil {
				return fmt.Sprintf("%s of %s is in step %s: %s", now.Action, i.Name, now.Step, now.Message)
			}
		}
		return ""
	})
	p.expectInService()
}

func (p place) expectNoFailures(traffic *world.Traffic) {
	p.t.Helper()
	answered, failures := traffic.Stop()
	p.t.Logf("%d requests were answered, %d were not", answered, len(failures))
	if answered == 0 || len(failures) > 0 {
		p.t.Errorf("%d requests were answered, and others not: %q", answered, failures)
	}
}

// expectSameContainers says whether pods have been left alone.
func (p place) expectSameContainers(before []corev1.Pod) {
	p.t.Helper()
	for i := range before {
		var now corev1.Pod
		err := p.Client.Get(p.t.Context(), client.ObjectKeyFromObject(&before[i]), &now)
		if err != nil || now.UID != before[i].UID || now.DeletionTimestamp != nil {
			p.t.Errorf("pod %s of a DaemonSet on %s was evicted (%v)", before[i].Name, before[i].Spec.NodeName, err)
			continue
		}
		if is, was := now.Status.ContainerStatuses[0].ContainerID, before[i].Status.ContainerStatuses[0].ContainerID; is != was {
			p.t.Errorf("the container of pod %s was %s, is %s", now.Name, was, is)
		}
	}
}

// expectKubelets looks at the programs of the hosts' kubelets, and that they are those that run.
func (p place) expectKubelets(fits func(program []byte) bool) {
	p.t.Helper()
	for _, host := range p.Lab.Hosts() {
		_, after, _ := strings.Cut(p.servicesOf(host)["kubelet"].Command, desired.Versions+`\`)
		version, _, _ := strings.Cut(after, `\`)
		program := desired.Versions + `\` + version + `\kubelet.exe`
		if content, err := host.ReadFile(program); err != nil || !fits(content) {
			p.t.Errorf("%s of %s is not the one it should be (%v)", program, host.Name(), err)
		}
		running, err := host.Processes()
		if err != nil || !slices.ContainsFunc(running, func(line string) bool { return strings.Contains(line, program) }) {
			p.t.Errorf("%s does not run on %s: %q (%v)", program, host.Name(), running, err)
		}
	}
}

// restartOnDemand asks for a restart of a node.
func (p place) restartOnDemand() {
	const name = "win-1"
	was := p.node(name)
	agents := p.expectServing(appAgent, len(p.Hosts()))
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	began := time.Now()
	p.restartNode(name)
	p.t.Logf("%s was back %s after it was asked to restart", name, time.Since(began).Round(100*time.Millisecond))
	p.expectRolledOut()
	p.expectNoFailures(traffic)
	if is := p.node(name); is.UID != was.UID {
		p.t.Error("the node is another one")
	}
	p.expectServing(appWeb, 3)
	uids := func(pods []corev1.Pod) (list []types.UID) {
		for _, pod := range pods {
			list = append(list, pod.UID)
		}
		slices.Sort(list)
		return list
	}
	if now := p.expectServing(appAgent, len(p.Hosts())); !slices.Equal(uids(now), uids(agents)) {
		p.t.Error("pods of the DaemonSet are other ones than before the restart")
	}
}

// lastHost is the one that leaves and comes back.
func (p place) lastHost() *lab.Host {
	hosts := p.Lab.Hosts()
	return hosts[len(hosts)-1]
}

// leaveNoTrace takes the last host out of the cluster and looks what stays on it.
func (p place) leaveNoTrace(fresh snapshot) {
	host := p.lastHost()
	const keys = "file " + guestapi.AuthorizedKeysFile
	fresh[keys] = takeSnapshot(p.t, host)[keys] // the key is another one since; who leaves keeps it
	p.leave(host, fresh)
	if containers, err := host.Containers(p.t.Context()); err != nil || len(containers) > 0 {
		p.t.Errorf("the host has containers %v (%v)", containers, err)
	}
	for kind, own := range map[hns.Kind]int{hns.Endpoint: 0, hns.Namespace: 1} { // one namespace is the host's own
		if objects, err := host.NetworkObjects(kind); err != nil || len(objects) > own {
			p.t.Errorf("the host has of %s %v (%v)", kind, objects, err)
		}
	}
	p.expectServing(appWeb, 3)
}

// leave takes a host out of the cluster, and waits until it is as it was when it was fresh.
func (p place) leave(host *lab.Host, fresh snapshot) {
	p.t.Helper()
	var entries corev1.ConfigMap
	p.get(ours(api.InstancesConfigMap), &entries)
	was := entries.DeepCopy()
	delete(entries.Data, host.Address())
	if err := p.Client.Patch(p.t.Context(), &entries, client.MergeFrom(was)); err != nil {
		p.t.Fatal(err)
	}
	began := time.Now()
	p.expectGone(ours(host.Address()), &v1alpha1.WindowsInstance{})
	p.expectGone(types.NamespacedName{Name: host.Name()}, &corev1.Node{})
	p.t.Logf("%s had left after %s", host.Name(), time.Since(began).Round(100*time.Millisecond))
	remains := p.expectEvent(host.Address(), api.EventHostLeft)
	p.t.Logf("event %s says: %s", api.EventHostLeft, remains)
	for _, difference := range fresh.compare(takeSnapshot(p.t, host), remains) {
		p.t.Error(difference)
	}
}

// comeAsMachine brings the last host back: its address is that of a Machine.
func (p place) comeAsMachine() {
	host := p.lastHost()
	p.becomeOpenShift("None")
	machine := p.machineAt("machine.openshift.io/v1beta1", machineAPINamespace, host.Name(), host.Address())
	if i := p.expectInstance(machine); i.Labels[api.LabelSource] != api.SourceMachine || i.Status.Hostname != host.Name() {
		p.t.Errorf("instance %s has labels %v and host name %s", i.Name, i.Labels, i.Status.Hostname)
	}
	p.expectServing(appAgent, len(p.Hosts()))
}

// anotherKey replaces the key pair that logs in to hosts.
func (p place) anotherKey(watch *budgetWatch) {
	old, err := ssh.ParsePrivateKey(p.Key)
	if err != nil {
		p.t.Fatal(err)
	}
	private, text, err := world.NewKey()
	if err != nil {
		p.t.Fatal(err)
	}
	cordons, before := watch.cordons(), p.untouched()
	var secret corev1.Secret
	p.get(ours(api.PrivateKeySecret), &secret)
	secret.Data[api.PrivateKeyKey] = text
	if err := p.Client.Update(p.t.Context(), &secret); err != nil {
		p.t.Fatal(err)
	}
	began := time.Now()
	want := sha256.Sum256(bytes.TrimSpace(ssh.MarshalAuthorizedKey(private.PublicKey())))
	p.eventually("all nodes say that they let in the new key", func(context.Context) string {
		for _, h := range p.Hosts() {
			if is := p.node(h.Name).Annotations[api.AnnotationPubKeyHash]; is != hex.EncodeToString(want[:]) {
				return h.Name + " says " + is
			}
		}
		return ""
	})
	p.eventually("no host lets the old key in", func(context.Context) string {
		for _, h := range p.Hosts() {
			if err := logIn(h.Address, old); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
				return fmt.Sprintf("%s answers it with %v", h.Name, err)
			}
		}
		return ""
	})
	p.t.Logf("the key was another one on all nodes after %s", time.Since(began).Round(100*time.Millisecond))
	for _, h := range p.Hosts() {
		if err := logIn(h.Address, private); err != nil {
			p.t.Errorf("%s does not let the new key in: %v", h.Name, err)
		}
	}
	if n := watch.cordons() - cordons; n != 0 {
		p.t.Errorf("%d nodes were cordoned for another key", n)
	}
	for what, is := range p.untouched() {
		if was := before[what]; is != was {
			p.t.Errorf("%s was %s, is %s", what, was, is)
		}
	}
}

// untouched is what another key changes nothing of: nodes, their starts, and the processes of services.
func (p place) untouched() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, host := range p.Lab.Hosts() {
		node := p.node(host.Name())
		all["node "+node.Name] = fmt.Sprint(node.UID, node.Status.NodeInfo.BootID, node.Annotations[api.AnnotationVersion])
		for name, s := range p.servicesOf(host) {
			if name != api.WICDUpdateService { // it goes a minute after an update
				all["service "+name+" of "+node.Name] = fmt.Sprint(s.State, s.PID, s.Command)
			}
		}
	}
	return all
}

// logIn tries a key.
func logIn(address string, key ssh.Signer) error {
	c, err := ssh.Dial("tcp", net.JoinHostPort(address, "22"), &ssh.ClientConfig{
		User: world.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, Timeout: 10 * time.Second,
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // the question is what the host thinks of the key
	})
	if err != nil {
		return err
	}
	return c.Close()
}

// outageWatch looks how long nodes are out of service, and pods take to end.
type outageWatch struct {
	mu       sync.Mutex
	since    map[string]time.Time // node -> when it was drained
	cordoned map[string]time.Time
	over     []string
	longest  time.Duration
	asked    map[types.UID]time.Time // pod -> when it was asked to stop
	pods     map[types.UID]time.Duration
}

// outageMost is how long a node may be out of service besides its drain.
const outageMost = 20 * time.Second

// watchOutages measures from now on.
func (p place) watchOutages() *outageWatch {
	w := &outageWatch{
		since: map[string]time.Time{}, cordoned: map[string]time.Time{}, asked: map[types.UID]time.Time{}, pods: map[types.UID]time.Duration{},
	}
	p.repeat(50*time.Millisecond, func(ctx context.Context) { // how exact the measurement is
		var instances v1alpha1.WindowsInstanceList
		var nodes corev1.NodeList
		pods, err := p.Pods(ctx, appSlow)
		if err == nil && p.Client.List(ctx, &instances) == nil && p.Client.List(ctx, &nodes) == nil {
			w.look(time.Now(), instances.Items, nodes.Items)
			w.lookAtPods(time.Now(), pods)
		}
	})
	return w
}

func (w *outageWatch) look(now time.Time, instances []v1alpha1.WindowsInstance, nodes []corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	isDrained := map[string]bool{}
	for _, i := range instances {
		isDrained[i.Status.Hostname] = i.Status.Maintenance != nil && i.Status.Maintenance.Step != v1alpha1.MaintenanceDrain
	}
	for _, node := range nodes {
		if node.Spec.Unschedulable {
			if _, known := w.cordoned[node.Name]; !known {
				w.cordoned[node.Name] = now
			}
			if _, known := w.since[node.Name]; !known && isDrained[node.Name] {
				w.since[node.Name] = now
			}
			continue
		}
		if since, out := w.since[node.Name]; out && notReady(&node) == "" {
			took := now.Sub(since)
			w.longest = max(w.longest, took)
			w.over = append(w.over, fmt.Sprintf("%s: drained in %s, then out of service for %s", node.Name,
				since.Sub(w.cordoned[node.Name]).Round(10*time.Millisecond), took.Round(10*time.Millisecond)))
			delete(w.since, node.Name)
		}
		delete(w.cordoned, node.Name)
	}
}

func (w *outageWatch) lookAtPods(now time.Time, pods []corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := map[types.UID]bool{}
	for _, pod := range pods {
		there[pod.UID] = true
		if _, known := w.asked[pod.UID]; !known && pod.DeletionTimestamp != nil {
			w.asked[pod.UID] = now
		}
	}
	for uid, asked := range w.asked {
		if _, known := w.pods[uid]; !known && !there[uid] {
			w.pods[uid] = now.Sub(asked)
		}
	}
}

// lasted is how long a pod was there after it was asked to stop.
func (w *outageWatch) lasted(pod types.UID) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[pod]
}

// logOutages shows what was measured since the last time.
func (p place) logOutages(w *outageWatch) {
	p.t.Helper()
	p.eventually("all outages are over", func(context.Context) string {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.since) > 0 {
			return fmt.Sprintf("there are %v", w.since)
		}
		return ""
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.over {
		p.t.Log(line)
	}
	p.t.Logf("the longest that a node was out of service besides its drain: %s (wanted on a quiet machine: %s)", w.longest.Round(10*time.Millisecond), outageMost)
	w.over, w.longest = nil, 0
}
