package storytest

import (
	"fmt"
	"maps"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// silentAfter is the time without heartbeats after which the cluster's node lifecycle controller marks a node Unknown.
const silentAfter = 40 * time.Second

// chaosHost is a Windows host with its kubelet and WICD, subject to random events.
type chaosHost struct {
	*storyHost
	w *chaosWorld

	silent, sshCut bool
	reportedAt     time.Time
	// registers means that the kubelet has started and registers if there is no Node. It does so only when it starts.
	registers bool
	reportsAt time.Time // when WICD reports after a start
	skew      time.Duration
	// Periods in which the kubelet or the services do not work.
	dies, fails   chaosSpan
	pending       string // why Windows needs a restart
	sticky        bool   // pending remains after restarts
	restartCauses int    // counts the causes of restarts

	userCordon    bool
	announced     bool
	announceAgain bool // announce it again after its instance is gone
	// joined counts the joins of the current instance.
	joined      int
	firstJoined string // the version with which it became a node
	versionAt   time.Time
	healthyAt   time.Time

	outSince, notReadySince       time.Time // as seen in the API
	hold                          *chaosHold
	restarted                     []time.Time
	restartsFor                   map[string]int
	restartRequests, restartsDone int // restarts requested by users, and restarts done for them
	seenState                     string
}

// chaosSpan is a period in which something does not work.
type chaosSpan struct{ from, until time.Time }

func (s chaosSpan) isActive() bool {
	return !s.from.IsZero() && !time.Now().Before(s.from) && time.Now().Before(s.until)
}

func newChaosHost(w *chaosWorld, n int) *chaosHost {
	h := &chaosHost{storyHost: newStoryHost(w.story, n), w: w, restartsFor: map[string]int{}}
	key, err := ssh.ParsePrivateKey(controllertest.SSHKey(w.t, 0))
	w.must(err)
	h.keys = []string{sshkey.AuthorizedLine(key)}
	if w.chance(0.2) {
		h.skew = w.between(-3*time.Minute, 3*time.Minute)
	}
	return h
}

func (w *chaosWorld) host(name string) *chaosHost {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	w.t.Fatalf("no host %s", name)
	return nil
}

// connected reports whether the host reaches the API server.
func (h *chaosHost) connected() bool { return h.alive() && !h.silent }

// nodeSeen returns the cached Node, which must not be changed, or nil.
func (h *chaosHost) nodeSeen() *corev1.Node {
	if o, found := h.w.cache.objects["Node"][client.ObjectKey{Name: h.name}]; found {
		return o.(*corev1.Node)
	}
	return nil
}

func (h *chaosHost) instanceSeen() *v1alpha1.WindowsInstance {
	if o, found := h.w.cache.objects["WindowsInstance"][client.ObjectKey{Namespace: "ns", Name: h.name}]; found {
		return o.(*v1alpha1.WindowsInstance)
	}
	return nil
}

// maintenance returns the maintenance in the host's status, or nil.
func (h *chaosHost) maintenance() *v1alpha1.Maintenance {
	if i := h.instanceSeen(); i != nil {
		return i.Status.Maintenance
	}
	return nil
}

// advance advances the host by one tick.
func (h *chaosHost) advance() {
	h.windows.advance(h.storyHost, h.restartWindows)
	if h.announceAgain && h.instanceSeen() == nil {
		h.announceAgain = false
		h.w.record("%s is announced again", h.name)
		h.w.announceHost(h)
	}
	if h.alive() && h.targetVersion != "" && !time.Now().Before(h.upgradeAt) {
		h.finishUpdate()
	}
	node := h.nodeSeen()
	if !h.connected() || h.version == "" {
		h.lifecycle(node)
		return
	}
	h.reportedAt = time.Now()
	if node == nil {
		if h.registers && time.Since(h.joinedAt) >= 10*time.Second {
			h.registerNode()
		}
		return
	}
	h.registers = false
	state := fmt.Sprint(node.ResourceVersion, h.version, h.refused, h.boot(), h.dies.isActive(), h.fails.isActive(), h.pending, time.Now().Before(h.reportsAt), h.w.cache.settings)
	if state == h.seenState {
		return
	}
	changed := node.DeepCopy()
	h.updateNode(changed)
	h.write(node, changed)
	h.seenState = state
}

// lifecycle acts as the cluster's node lifecycle controller.
func (h *chaosHost) lifecycle(node *corev1.Node) {
	if node == nil || time.Since(h.reportedAt) < silentAfter || nodestate.Ready(node).Status == corev1.ConditionUnknown {
		return
	}
	changed := node.DeepCopy()
	setConditionAt(changed, corev1.NodeReady, corev1.ConditionUnknown, "Kubelet stopped posting node status.", time.Now())
	h.write(node, changed)
	h.seenState = ""
}

// write stores what has changed in a Node.
func (h *chaosHost) write(before, node *corev1.Node) {
	status := node.Status
	if !maps.Equal(before.Annotations, node.Annotations) {
		h.w.must(h.w.client.Patch(h.w.ctx, node, client.MergeFrom(before)))
	}
	if !equality.Semantic.DeepEqual(before.Status, status) {
		node.Status = status
		h.w.must(h.w.client.Status().Update(h.w.ctx, node))
	}
}

func setConditionAt(node *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus, message string, at time.Time) {
	var before corev1.ConditionStatus
	if c := nodestate.Condition(node, kind); c != nil {
		before = c.Status
	}
	controllertest.SetNodeCondition(node, kind, status, message)
	if before != status {
		nodestate.Condition(node, kind).LastTransitionTime = metav1.NewTime(at)
	}
}

// registerNode registers the Node as a starting kubelet does. WICD annotates it a moment later.
func (h *chaosHost) registerNode() {
	h.registers = false
	h.reportsAt = nodestate.Later(h.reportsAt, time.Now().Add(h.w.between(0, 20*time.Second)))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: h.name, UID: types.UID(fmt.Sprint(h.name, "-", time.Now().Unix())), Labels: map[string]string{corev1.LabelOSStable: "windows"}, CreationTimestamp: metav1.Now(),
	}}
	h.w.must(h.w.client.Create(h.w.ctx, node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.address}}
	setConditionAt(node, corev1.NodeReady, corev1.ConditionFalse, "the kubelet has just started", time.Now().Add(h.skew))
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.KubeletVersion = h.boot(), h.kubelet()
	h.w.must(h.w.client.Status().Update(h.w.ctx, node))
	h.userCordon = false
	h.w.record("%s registers, with version %s", h.name, h.version)
}

// updateNode updates the Node as the kubelet and WICD do.
func (h *chaosHost) updateNode(node *corev1.Node) {
	ready, reason := corev1.ConditionTrue, ""
	if h.dies.isActive() {
		ready, reason = corev1.ConditionFalse, "container runtime is down"
	}
	setConditionAt(node, corev1.NodeReady, ready, reason, time.Now().Add(h.skew))
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.KubeletVersion = h.boot(), h.kubelet()
	if time.Now().Before(h.reportsAt) {
		return
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	healthy, reason := corev1.ConditionTrue, ""
	if h.fails.isActive() {
		healthy, reason = corev1.ConditionFalse, "service kube-proxy does not run"
	}
	setConditionAt(node, api.ConditionServicesHealthy, healthy, reason, time.Now())
	required := corev1.ConditionFalse
	if h.pending != "" {
		required = corev1.ConditionTrue
	}
	setConditionAt(node, api.ConditionNodeRebootRequired, required, h.pending, time.Now())
	node.Annotations[api.AnnotationBootID] = h.boot()
	h.followOrder(node)
	node.Annotations[api.AnnotationVersion] = h.version
	if _, settings := h.w.publishedKeys(h.version); settings != "" && h.verifiesSettings(h.version) {
		node.Annotations[api.AnnotationSettings] = settings
	}
}

// followOrder acts as WICD does on the Node's desired version.
func (h *chaosHost) followOrder(node *corev1.Node) {
	target := node.Annotations[api.AnnotationDesiredVersion]
	switch {
	case target == "" || target == h.version:
		h.targetVersion, h.refused = "", ""
		setConditionAt(node, api.ConditionUpdated, corev1.ConditionTrue, "", time.Now())
	case target != h.targetVersion && target != h.refused && h.verifiesSettings(target) && h.acceptsOrder(node):
		h.targetVersion, h.upgradeAt = target, time.Now().Add(h.w.between(15*time.Second, time.Minute))
		h.checkTurn(target)
	case target == h.refused:
		setConditionAt(node, api.ConditionUpdated, corev1.ConditionFalse, "service kubelet does not start: flag provided but not defined", time.Now())
	}
}

// finishUpdate ends an update, with the new version or a rollback.
func (h *chaosHost) finishUpdate() {
	f := h.w.faults[h.targetVersion]
	isBad := f != nil && f.on[h.name]
	h.seenState, h.registers = "", true
	if isBad && f.kind == "refuses" {
		h.w.record("%s failed to upgrade to %s", h.name, h.targetVersion)
		h.refused, h.targetVersion = h.targetVersion, ""
		return
	}
	h.hasVersion(h.targetVersion)
	h.targetVersion, h.firstJoined = "", ""
	h.w.record("%s has version %s", h.name, h.version)
}

// hasVersion sets the host's version, which may be faulty.
func (h *chaosHost) hasVersion(version string) {
	h.version, h.versionAt, h.healthyAt = version, time.Now(), time.Now()
	h.dies, h.fails = chaosSpan{}, chaosSpan{}
	f := h.w.faults[version]
	if f == nil || !f.on[h.name] {
		return
	}
	span := chaosSpan{time.Now().Add(f.delay), time.Now().Add(f.delay + f.lasts)}
	switch f.kind {
	case "services":
		h.fails = span
	case "dies":
		h.dies = span
	}
}

// powerUp starts Windows.
func (h *chaosHost) powerUp() {
	h.bootID++
	h.off, h.registers, h.seenState = false, true, ""
	h.reportsAt = time.Now().Add(h.w.between(0, 45*time.Second))
	if !h.sticky && h.pending != "" {
		h.pending = ""
	}
}

// recover ends all faults of the host.
func (h *chaosHost) recover() {
	h.silent, h.sshCut, h.pending, h.sticky, h.seenState = false, false, "", false, ""
	h.dies, h.fails, h.refused = chaosSpan{}, chaosSpan{}, ""
	if h.off {
		h.powerUp()
	}
}
