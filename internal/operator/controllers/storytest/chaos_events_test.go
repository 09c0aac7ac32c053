package storytest

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// chaosEvent is a random event; most events are undone after some time.
type chaosEvent struct {
	name    string
	perHour float64
	trigger func(w *chaosWorld, h *chaosHost)
}

func chaosEvents() []chaosEvent {
	return []chaosEvent{
		{"silent nodes", 1, (*chaosWorld).silence},
		{"hosts without power", 0.5, (*chaosWorld).powerOff},
		{"stopped machines", 0.5, (*chaosWorld).stopMachine},
		{"deleted Nodes", 0.4, (*chaosWorld).deleteNode},
		{"removed annotations", 0.6, (*chaosWorld).removeAnnotation},
		{"restarts that users ask for", 0.5, (*chaosWorld).userRequestsRestart},
		{"retries", 0.5, func(w *chaosWorld, _ *chaosHost) { w.retryFailed() }},
		{"users' cordons", 0.6, (*chaosWorld).userCordons},
		{"kubelets that die", 0.4, (*chaosWorld).kubeletDies},
		{"budgets that allow nothing", 0.7, (*chaosWorld).blockBudget},
		{"stuck pods", 0.4, (*chaosWorld).blockPodDeletion},
		{"pending restarts", 0.4, (*chaosWorld).needRestart},
		{"restarts of the operator", 2, func(w *chaosWorld, _ *chaosHost) {
			w.record("the operator restarts")
			w.startChaosOperator()
		}},
		{"an operator that crashes", 0.3, (*chaosWorld).crashOperator},
		{"a failing API server", 0.7, (*chaosWorld).failAPI},
		{"connections that break", 0.7, (*chaosWorld).breakConnections},
		{"deleted instances", 0.4, (*chaosWorld).deleteInstance},
		{"pauses", 0.5, (*chaosWorld).pause},
	}
}

// randomEvents returns a seed's kinds of events. They are few, to keep the story readable.
func (w *chaosWorld) randomEvents() []chaosEvent {
	all := chaosEvents()
	w.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:2+w.rand.IntN(5)]
}

// triggerEvents triggers events on random hosts.
func (w *chaosWorld) triggerEvents() {
	for _, e := range w.events {
		if w.chance(e.perHour * w.every.Hours()) {
			e.trigger(w, w.hosts[w.rand.IntN(len(w.hosts))])
		}
	}
}

// randomDuration returns a duration, from seconds to hours.
func (w *chaosWorld) randomDuration() time.Duration {
	switch w.rand.IntN(4) {
	case 0:
		return w.between(20*time.Second, 3*time.Minute)
	case 1:
		return w.between(3*time.Minute, 9*time.Minute)
	case 2:
		return w.between(9*time.Minute, 40*time.Minute)
	}
	return w.between(40*time.Minute, 3*time.Hour)
}

// silence cuts one node or all of them off from the API server. Their pods keep running; SSH may work or not.
func (w *chaosWorld) silence(item *chaosHost) {
	hosts, d, cut := []*chaosHost{item}, w.randomDuration(), w.chance(0.5)
	if w.chance(0.4) {
		hosts = w.hosts
	}
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h *chaosHost) bool { return h.silent })
	for _, h := range hosts {
		h.silent, h.sshCut = true, cut
		w.record("%s is silent for %s, SSH is cut: %v", h.name, d.Round(time.Second), cut)
		w.schedule(d, func() {
			if h.silent {
				h.silent, h.sshCut, h.seenState = false, false, ""
				w.record("%s reports again", h.name)
			}
		})
	}
}

func (w *chaosWorld) powerOff(h *chaosHost) {
	if h.off {
		return
	}
	d := w.randomDuration()
	h.off = true
	w.record("%s loses its power for %s", h.name, d.Round(time.Second))
	w.schedule(d, func() {
		if h.off {
			h.powerUp()
			w.record("%s has power again", h.name)
		}
	})
}

// stopMachine stops a machine; the cloud's controller deletes its Node.
func (w *chaosWorld) stopMachine(h *chaosHost) {
	if h.off {
		return
	}
	w.powerOff(h)
	w.schedule(w.between(10*time.Second, 2*time.Minute), func() {
		if h.off {
			w.deleteNode(h)
		}
	})
}

func (w *chaosWorld) deleteNode(h *chaosHost) {
	node := h.nodeSeen()
	if node == nil || w.eventsEnded {
		return
	}
	w.must(w.client.Delete(w.ctx, node.DeepCopy()))
	h.userCordon = false
	w.record("the Node of %s is deleted", h.name)
}

// changeNode patches a Node as kubectl does, and reports whether there is one.
func (w *chaosWorld) changeNode(h *chaosHost, change func(*corev1.Node)) bool {
	before := h.nodeSeen()
	if before == nil {
		return false
	}
	node := before.DeepCopy()
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	change(node)
	w.must(w.client.Patch(w.ctx, node, client.MergeFrom(before)))
	return true
}

func (w *chaosWorld) removeAnnotation(h *chaosHost) {
	if w.changeNode(h, func(n *corev1.Node) { delete(n.Annotations, api.AnnotationDesiredVersion) }) {
		w.record("a user removes annotation desired-version of %s", h.name)
	}
}

func (w *chaosWorld) userRequestsRestart(h *chaosHost) {
	if node := h.nodeSeen(); node != nil {
		if _, requested := node.Annotations[api.AnnotationReboot]; requested {
			return
		}
	}
	if w.changeNode(h, func(n *corev1.Node) { n.Annotations[api.AnnotationReboot] = "" }) {
		h.restartRequests++
		w.record("a user requests a restart of %s", h.name)
	}
}

func (w *chaosWorld) userCordons(h *chaosHost) {
	if node := h.nodeSeen(); node == nil || node.Spec.Unschedulable {
		return
	}
	d := w.randomDuration()
	w.changeNode(h, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	h.userCordon = true
	w.record("a user cordons %s for %s", h.name, d.Round(time.Second))
	w.schedule(d, func() {
		if h.userCordon {
			h.userCordon = false
			w.changeNode(h, func(n *corev1.Node) { n.Spec.Unschedulable = false })
			w.record("the user uncordons %s", h.name)
		}
	})
}

func (w *chaosWorld) kubeletDies(h *chaosHost) {
	h.dies = chaosSpan{time.Now(), time.Now().Add(w.randomDuration())}
	w.record("the kubelet of %s does not work for %s", h.name, time.Until(h.dies.until).Round(time.Second))
}

func (w *chaosWorld) blockBudget(*chaosHost) {
	a := w.apps[w.rand.IntN(len(w.apps))]
	if a.blocked {
		return
	}
	d := w.randomDuration()
	a.blocked = true
	w.record("the budget of %s allows no evictions for %s", a.name, d.Round(time.Second))
	w.schedule(d, func() {
		a.blocked = false
		w.record("the budget of %s allows evictions again", a.name)
	})
}

// blockPodDeletion adds a finalizer to a pod; it is removed only after some time.
func (w *chaosWorld) blockPodDeletion(h *chaosHost) {
	var pod *corev1.Pod
	w.eachPod(func(p *corev1.Pod) {
		if p.Spec.NodeName == h.name && p.DeletionTimestamp == nil && !isStuck(p) {
			pod = p.DeepCopy()
		}
	})
	if pod == nil {
		return
	}
	pod.Finalizers = append(pod.Finalizers, stuckFinalizer)
	w.must(w.client.Update(w.ctx, pod))
	w.record("pod %s on %s is held by a finalizer", pod.Name, h.name)
	name := pod.Name
	w.schedule(w.randomDuration(), func() {
		if o, found := w.cache.objects["Pod"][client.ObjectKey{Namespace: "default", Name: name}]; found {
			pod := o.DeepCopyObject().(*corev1.Pod)
			pod.Finalizers = []string{"story/grace"}
			w.must(w.client.Update(w.ctx, pod))
		}
	})
}

// needRestart makes Windows report a pending restart, in some cases even after a restart.
func (w *chaosWorld) needRestart(h *chaosHost) {
	if h.pending != "" || h.version == "" {
		return
	}
	h.restartCauses++
	h.pending, h.sticky = "Windows waits for a restart: updates are installed (Component Based Servicing)", w.chance(0.4)
	w.record("Windows on %s waits for a restart, which a restart ends: %v", h.name, !h.sticky)
	if h.sticky {
		w.schedule(w.between(2*time.Hour, 9*time.Hour), func() { h.pending, h.sticky = "", false })
	}
}

// crashOperator restarts the operator at every tick for some time.
func (w *chaosWorld) crashOperator(*chaosHost) {
	if w.crashes {
		return
	}
	d := w.between(time.Minute, 10*time.Minute)
	w.crashes = true
	w.record("the operator restarts repeatedly for %s", d.Round(time.Second))
	w.schedule(d, func() { w.crashes = false })
}

func (w *chaosWorld) failAPI(*chaosHost) {
	if w.apiFails > 0 {
		return
	}
	d := w.randomDuration()
	w.apiFails = 0.1 + w.rand.Float64()/5
	w.record("%.0f%% of the operator's requests fail for %s", 100*w.apiFails, d.Round(time.Second))
	w.schedule(d, func() { w.apiFails = 0 })
}

func (w *chaosWorld) breakConnections(*chaosHost) {
	d := w.randomDuration()
	w.sshFails = 0.1 + w.rand.Float64()/4
	w.record("%.0f%% of the connections over SSH break for %s", 100*w.sshFails, d.Round(time.Second))
	w.schedule(d, func() { w.sshFails = 0 })
}

// deleteInstance removes a host, which is announced again after some time.
func (w *chaosWorld) deleteInstance(h *chaosHost) {
	i := h.instanceSeen()
	if i == nil || i.DeletionTimestamp != nil {
		return
	}
	w.must(w.client.Delete(w.ctx, i.DeepCopy()))
	w.record("the instance of %s is deleted", h.name)
	w.schedule(w.randomDuration(), func() { h.announceAgain = true })
}

func (w *chaosWorld) pause(*chaosHost) {
	if !w.pausedSince.IsZero() {
		return
	}
	d := w.randomDuration()
	w.setPaused(true)
	w.record("a user pauses the rollout for %s", d.Round(time.Second))
	w.schedule(d, func() {
		w.setPaused(false)
		w.record("the rollout continues")
	})
}

// retryFailed retries failed actions as users do.
func (w *chaosWorld) retryFailed() {
	for _, h := range w.hosts {
		i := h.instanceSeen()
		if i == nil || i.Status.Failure == nil {
			continue
		}
		annotated := i.DeepCopy()
		if annotated.Annotations == nil {
			annotated.Annotations = map[string]string{}
		}
		annotated.Annotations[api.AnnotationRetry] = "true"
		w.must(w.client.Update(w.ctx, annotated))
		w.record("a user requests a retry on %s, where %s failed: %s", h.name, i.Status.Failure.Action, i.Status.Failure.Message)
		if i.Status.Failure.Action == v1alpha1.ActionUpgrade {
			h.refused = ""
		}
	}
}
