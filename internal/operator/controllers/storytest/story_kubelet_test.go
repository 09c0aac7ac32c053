package storytest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// advance advances the host by one tick: its kubelet reports, and WICD goes to another version.
func (h *storyHost) advance() {
	s := h.story
	h.windows.advance(h, h.restartItself)
	state := fmt.Sprint(s.cache.version("Node", h.name), h.serves(), h.kubeletSilent, h.serviceFault, h.pending, h.hasCheckedRestart(), h.version, s.cache.settings, h.isAuthorized(), h.updates.advance(h))
	if state == h.state && h.targetVersion == "" && h.joinedAt.Add(time.Minute).Before(time.Now()) {
		return // nothing has changed
	}
	h.state = state
	var node corev1.Node
	err := s.client.Get(s.ctx, types.NamespacedName{Name: h.name}, &node)
	if apierrors.IsNotFound(err) {
		if h.serves() && !h.kubeletSilent && time.Since(h.joinedAt) >= 10*time.Second {
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
	h.registrations++
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: h.name, UID: types.UID(fmt.Sprintf("%s-%d", h.name, h.registrations)), Labels: map[string]string{corev1.LabelOSStable: "windows"},
	}}
	if h.registrations == 1 { // WICD adds its version a moment later; that matters only for a recreated Node
		node.Annotations = map[string]string{api.AnnotationVersion: h.version}
	}
	node.CreationTimestamp = metav1.Now()
	if h.ofCloud {
		node.Spec.Taints = []corev1.Taint{{Key: api.TaintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	h.story.must(h.story.client.Create(h.story.ctx, node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.address}}
	controllertest.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, "")
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.KubeletVersion = h.boot(), h.kubelet()
	h.story.must(h.story.client.Status().Update(h.story.ctx, node))
}

// report updates the Node as the kubelet, WICD and the node lifecycle controller do.
func (h *storyHost) report(node *corev1.Node) {
	if !h.serves() || h.kubeletSilent {
		controllertest.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionUnknown, "no heartbeat")
		return
	}
	controllertest.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, "")
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.KubeletVersion = h.boot(), h.kubelet()
	if h.others || !h.isAuthorized() {
		return
	}
	node.Annotations = kube.Merge(node.Annotations) // a new Node has no annotations
	h.reportConditions(node)
	target := node.Annotations[api.AnnotationDesiredVersion]
	switch {
	case target == "":
	case target == h.version:
		h.targetVersion, h.refused = "", ""
		_ = h.acceptsOrder(node) // invalidates older orders
		controllertest.SetNodeCondition(node, api.ConditionUpdated, corev1.ConditionTrue, "")
	case target != h.targetVersion && target != h.refused && h.verifiesSettings(target) && h.acceptsOrder(node):
		h.targetVersion, h.upgradeAt = target, time.Now().Add(20*time.Second)
		h.story.mustBeDrained(h, true, "went to another version")
	case h.targetVersion != "" && !time.Now().Before(h.upgradeAt):
		h.arrive(node)
	}
	node.Annotations[api.AnnotationVersion] = h.version
	h.follow(node)
}

// isAuthorized reports whether WICD has its certificate. The operator approves a request only if it still knows its token.
func (h *storyHost) isAuthorized() bool {
	if h.approvalTakes == 0 {
		return true
	}
	if id := tokenID(h.token); h.decided != id && !time.Now().Before(h.joinedAt.Add(h.approvalTakes)) {
		h.decided, h.isApproved = id, h.story.instance(h.name).Status.BootstrapCredentialID == id
	}
	return h.isApproved
}

// acceptsOrder reports whether the operator has ordered the Node's desired version. Each order counts once.
func (h *storyHost) acceptsOrder(node *corev1.Node) bool {
	if h.acceptsAnyOrder {
		return true
	}
	order := desired.VersionOrder{Cluster: h.cluster, Node: h.name, UID: string(node.UID), Version: node.Annotations[api.AnnotationDesiredVersion]}
	serial, err := order.Verify(node.Annotations[api.AnnotationVersionOrder], h.signingKey)
	if err != nil || h.lastOrder.uid == node.UID && serial <= h.lastOrder.serial {
		return false
	}
	h.lastOrder.uid, h.lastOrder.serial = node.UID, serial
	return true
}

// hasCheckedRestart reports whether WICD has checked for a pending restart since the last start. It starts late if services start slowly.
func (h *storyHost) hasCheckedRestart() bool {
	return !time.Now().Before(h.backAt.Add(max(h.late, h.windows.quirks.Setup.SlowServices.StartTakes)))
}

// reportConditions sets WICD's conditions after its first check: whether services work and whether a restart is pending, with the boot ID that they
// refer to.
func (h *storyHost) reportConditions(node *corev1.Node) {
	if !h.hasCheckedRestart() {
		return
	}
	report := func(kind corev1.NodeConditionType, isGood corev1.ConditionStatus, problem string) {
		bad := map[corev1.ConditionStatus]corev1.ConditionStatus{corev1.ConditionTrue: corev1.ConditionFalse, corev1.ConditionFalse: corev1.ConditionTrue}[isGood]
		switch {
		case problem != "":
			controllertest.SetNodeCondition(node, kind, bad, problem)
		case nodestate.Condition(node, kind) != nil:
			controllertest.SetNodeCondition(node, kind, isGood, "")
		}
	}
	report(api.ConditionServicesHealthy, corev1.ConditionTrue, h.serviceFault)
	if h.pendingRestart != nil {
		h.pending = h.pendingRestart()
	}
	report(api.ConditionNodeRebootRequired, corev1.ConditionFalse, h.pending)
	node.Annotations[api.AnnotationBootID] = h.boot()
	h.updates.report(node)
}

// follow applies the settings of the host's version. It adds the wanted SSH keys, and drops others once one of the wanted keys is proven.
func (h *storyHost) follow(node *corev1.Node) {
	if !h.verifiesSettings(h.version) {
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
			h.story.record("%s authorizes another key", h.name)
		}
	}
	if h.isProven(node, keys) {
		h.keys = keys
		h.story.record("%s drops the former key", h.name)
	}
}

// verifiesSettings reports whether the published settings of a version are signed with the host's signing key.
func (h *storyHost) verifiesSettings(version string) bool {
	var cm corev1.ConfigMap
	name := types.NamespacedName{Namespace: "ns", Name: api.ServicesConfigMapPrefix + version}
	if h.story.client.Get(h.story.ctx, name, &cm) != nil {
		return true // about to be published
	}
	_, err := desired.Verify(cm.Data, h.signingKey)
	return err == nil
}

// isProven reports whether a key is proven and the host has others to drop.
func (h *storyHost) isProven(node *corev1.Node, keys []string) bool {
	isHash := func(key string) bool {
		sum := sha256.Sum256([]byte(key))
		return hex.EncodeToString(sum[:]) == node.Annotations[api.AnnotationPubKeyHash]
	}
	return slices.ContainsFunc(keys, isHash) && !slices.Equal(h.keys, keys)
}

// arrive ends an update, with the new version or a rollback.
func (h *storyHost) arrive(node *corev1.Node) {
	if h.targetVersion == h.refuses {
		h.story.record("%s failed to upgrade to %s", h.name, h.targetVersion)
		h.refused, h.targetVersion = h.targetVersion, ""
		controllertest.SetNodeCondition(node, api.ConditionUpdated, corev1.ConditionFalse, "service kubelet does not start: flag provided but not defined")
		return
	}
	h.version, h.targetVersion = h.targetVersion, ""
	h.story.record("%s has version %s", h.name, h.version)
}

// advancePods ends pods whose grace period has ended, and creates replacements on nodes in service.
func (s *story) advancePods() {
	for _, o := range s.cache.sorted("Pod") {
		pod := o.DeepCopyObject().(*corev1.Pod)
		if len(pod.OwnerReferences)+len(pod.Status.Conditions) == 1 && pod.Labels["app"] != "slow" && time.Since(pod.CreationTimestamp.Time) > 10*time.Second && s.isUp(pod.Spec.NodeName) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			s.must(s.client.Status().Update(s.ctx, pod))
		}
		if pod.DeletionTimestamp == nil || time.Since(pod.DeletionTimestamp.Time) < 10*time.Second || !s.isUp(pod.Spec.NodeName) || slices.Contains(pod.Finalizers, "story/stuck") {
			continue
		}
		pod.Finalizers = nil
		s.must(s.client.Update(s.ctx, pod))
		s.replacePod(pod)
	}
}

// replacePod acts as a pod's controller and the scheduler. A pod that tolerates every taint stays on its node, which has the most room.
func (s *story) replacePod(before *corev1.Pod) {
	same := func(pod *corev1.Pod) {
		pod.OwnerReferences, pod.Spec.Tolerations = before.OwnerReferences, before.Spec.Tolerations
	}
	if len(before.Spec.Tolerations) > 0 {
		s.addPod(before.Spec.NodeName, before.Labels["app"], same)
		return
	}
	for _, node := range s.nodes() {
		if !node.Spec.Unschedulable && s.isUp(node.Name) && s.budgetOf(before.Labels["app"]) {
			s.addPod(node.Name, before.Labels["app"], same)
			return
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
