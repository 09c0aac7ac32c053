package join

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Unreachable means that the connection failed or was lost.
type Unreachable struct {
	// Reason is one of the reasons of condition Reachable.
	Reason string
	Err    error
}

// Error implements error.
func (u *Unreachable) Error() string { return u.Err.Error() }

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// Retry returns how long to wait before the join is retried after err; ok is false if only the failure back-off applies.
func Retry(err error) (after time.Duration, ok bool) {
	var rebooting *Rebooting
	var unreachable *Unreachable
	var blocked *Blocked
	switch {
	case errors.As(err, &rebooting):
		return rebootPoll, true
	case IsWindowsBusy(err):
		return windowsPoll, true
	case rebootDidNotHelp(err):
		return rebootFailedRetry, true
	case errors.Is(err, ErrNoSlot):
		return slotPoll, true
	case errors.Is(err, ErrOccupied):
		return time.Minute, true // it waits for the plan
	case errors.As(err, &unreachable) && isHostKeyReason(unreachable.Reason):
		return changedKeyRetry, true
	case errors.As(err, &blocked):
		return blockedRetry, true
	}
	return 0, false
}

// Reason returns the reason for err that conditions and metrics report.
func Reason(err error) string {
	var (
		unreachable *Unreachable
		unsupported *Unsupported
		rebooting   *Rebooting
		stall       *Stall
		paused      *Paused
		network     *desired.NetworkError
		blocked     *Blocked
	)
	wicd := wicdapi.Failed(err)
	switch {
	case err == nil:
		return api.ReasonConfigured
	case errors.As(err, &unreachable):
		return unreachable.Reason
	case errors.As(err, &unsupported):
		return unsupported.Reason
	case errors.As(err, &stall):
		return stall.Reason
	case errors.As(err, &paused):
		return api.ReasonPaused
	case errors.As(err, &rebooting):
		return api.ReasonRebooting
	case errors.Is(err, ErrNoSlot):
		return api.ReasonWaitingForSlot
	case errors.Is(err, ErrOccupied):
		return api.ReasonAdoptionPending
	case errors.As(err, &network):
		return network.Reason
	case errors.Is(err, desired.ErrNetwork):
		return api.ReasonNetworkNotConfigured
	case errors.Is(err, ErrCluster):
		return api.ReasonClusterUnknown
	case wicd != nil && reasonsOfWICD()[wicd.Code] != "":
		return reasonsOfWICD()[wicd.Code]
	case errors.As(err, &blocked):
		return api.ReasonBlockedBySecuritySoftware
	case errors.Is(err, wicdapi.ErrTooSlow):
		return api.ReasonTransferTooSlow
	default:
		return api.ReasonJoinFailed
	}
}

func reasonsOfWICD() map[wicdapi.Code]string {
	return map[wicdapi.Code]string{
		wicdapi.CodeContentAltered: api.ReasonContentAltered, wicdapi.CodeRebootDidNotHelp: api.ReasonRebootDidNotHelp,
		wicdapi.CodeWaitingForSetup: api.ReasonWaitingForWindowsSetup, wicdapi.CodeServicing: api.ReasonWindowsServicing,
		wicdapi.CodeDISMSilent: api.ReasonDISMNotAnswering,
	}
}

// IsWindowsBusy reports whether WICD waits until Windows has finished its setup, features or updates. WICD limits this wait.
func IsWindowsBusy(err error) bool {
	wicd := wicdapi.Failed(err)
	return wicd != nil && (wicd.Code == wicdapi.CodeWaitingForSetup || wicd.Code == wicdapi.CodeServicing)
}

// rebootDidNotHelp reports whether the host was restarted for its join and still requires a restart.
func rebootDidNotHelp(err error) bool {
	wicd := wicdapi.Failed(err)
	return wicd != nil && wicd.Code == wicdapi.CodeRebootDidNotHelp
}

// Report sets the conditions after an attempt that ended with err, or, if attempted is false, for the reason why there was none.
func Report(st *v1alpha1.WindowsInstanceStatus, generation int64, attempted bool, err error) {
	set := conditions{st, generation}
	reason := Reason(err)
	set.setIf(needsUser(err), api.ConditionStalled, reason, err)
	if unready := (*Unready)(nil); attempted && !errors.As(err, &unready) {
		if r := (*Rebooting)(nil); !errors.As(err, &r) || !r.Awaited { // otherwise the condition already has the cause of the restart
			set.setIf(reason == api.ReasonRebooting, api.ConditionRebootRequired, reason, err)
		}
		set.reached(err)
		set.supported(err)
	}
	if u := (*Unsupported)(nil); !attempted && errors.As(err, &u) {
		set.clearRestart()
	}
	switch {
	case reason == api.ReasonRepairFailed: // a repair implies that the host is configured
	case err != nil:
		set.setFalse(api.ConditionConfigured, reason, err.Error())
	case attempted:
		set.setTrue(api.ConditionConfigured, reason, "the host is configured and its services are installed")
	}
}

// clearRestart removes the conditions about a restart, because the operator no longer checks whether the host is back.
func (c conditions) clearRestart() {
	for _, kind := range []string{api.ConditionRebootRequired, api.ConditionReachable} {
		if previous := meta.FindStatusCondition(c.status.Conditions, kind); previous != nil && previous.Reason == api.ReasonRebooting {
			meta.RemoveStatusCondition(&c.status.Conditions, kind)
		}
	}
}

// isHostKeyReason reports whether a host was rejected for the key that it presents.
func isHostKeyReason(reason string) bool {
	return slices.Contains([]string{api.ReasonHostKeyChanged, api.ReasonHostKeyUnknown, api.ReasonHostKeyUnsuitable}, reason)
}

// needsUser reports whether only the user can resolve err.
func needsUser(err error) bool {
	var stall *Stall
	reason := Reason(err)
	return errors.As(err, &stall) || rebootDidNotHelp(err) || reason == api.ReasonAddressInvalid || isHostKeyReason(reason)
}

// ErrCluster is the class of errors about missing information on the cluster.
var ErrCluster = errors.New("reading the cluster")

// Observe updates the status from the Node, and sums up all conditions in Ready. If again is not 0, the result may differ after that time although
// nothing has changed.
func Observe(st *v1alpha1.WindowsInstanceStatus, generation int64, node *corev1.Node, version string, now time.Time) (again time.Duration) {
	set := conditions{st, generation}
	st.NodeRef = nodestate.ReferenceTo(node)
	switch {
	case node == nil && st.NodeConflict != nil:
		set.setFalse(api.ConditionNodeReady, api.ReasonHostnameConflict, fmt.Sprintf("Node %s belongs to another machine, which registered it", st.NodeConflict.Name))
	case node == nil:
		set.setFalse(api.ConditionNodeReady, api.ReasonNodeMissing, "the host has not registered a Node, or the Node was deleted; "+
			"if this persists, a certificate request of the host was not approved (kubectl get csr), or its kubelet fails ("+desired.Logs+`\kubelet on the host)`)
	default:
		again = set.observe(node, version, now)
	}
	set.observeSandboxImage(node)
	set.observeSupport(node, now)
	set.summarize()
	return again
}

// windows is the operating system of Windows nodes, in their label and their status.
const windows = "windows"

func (c conditions) observe(node *corev1.Node, version string, now time.Time) (again time.Duration) {
	kubelet := nodestate.Ready(node)
	reported := node.Annotations[api.AnnotationVersion]
	label, system := node.Labels[corev1.LabelOSStable], node.Status.NodeInfo.OperatingSystem
	switch {
	case label != "" && label != windows && system != windows:
		c.setFalse(api.ConditionNodeReady, api.ReasonNodeNotWindows, fmt.Sprintf(
			"node %s reports that it is not a Windows node (label %s=%s, status.nodeInfo.operatingSystem %q), so the operator may neither change nor delete it",
			node.Name, corev1.LabelOSStable, label, system))
	case sandboxImageFailure(node) != nil && kubelet != nil && kubelet.Status == corev1.ConditionFalse:
		c.setFalse(api.ConditionNodeReady, sandboxImageReason(node), truncate.Text(fmt.Sprintf("node %s: %s", node.Name, sandboxImageFailure(node).Message), truncate.Reported))
	case nodestate.WaitsForCloud(node) && (kubelet == nil || kubelet.Status != corev1.ConditionUnknown):
		return c.waitForCloud(node, now)
	case kubelet == nil || kubelet.Status != corev1.ConditionTrue:
		message := "the kubelet has not reported yet"
		if kubelet != nil {
			message = kubelet.Message
		}
		if lacks := nodestate.Condition(node, api.ConditionWindowsNetworkUnavailable); kubelet != nil && lacks != nil && lacks.Status == corev1.ConditionTrue {
			message = truncate.Text(message+"; "+lacks.Message, truncate.Reported)
		}
		c.setFalse(api.ConditionNodeReady, api.ReasonNodeNotReady, fmt.Sprintf("node %s: %s", node.Name, message))
	case reported == "":
		c.setFalse(api.ConditionNodeReady, api.ReasonVersionPending,
			fmt.Sprintf("node %s is Ready; WICD has not yet reported version %s", node.Name, version))
	default:
		message := fmt.Sprintf("node %s is Ready with version %s", node.Name, reported)
		if slices.ContainsFunc(node.Spec.Taints, nodestate.IsForImages) {
			message += "; it takes no pods until it has pulled the images in spec.images of WindowsConfig (condition " + api.ConditionImagesMissing + ")"
		}
		c.setTrue(api.ConditionNodeReady, api.ReasonNodeReady, message)
		if configured := meta.FindStatusCondition(c.status.Conditions, api.ConditionConfigured); reported != version &&
			configured != nil && configured.Status != metav1.ConditionTrue && configured.Reason != api.ReasonAdoptionPending {
			c.recovered(*configured, reported)
		}
	}
	return 0
}

// recovered clears the conditions of the last join, a failed repair that is no longer needed. Reachable becomes unknown.
func (c conditions) recovered(configured metav1.Condition, version string) {
	if reachable := meta.FindStatusCondition(c.status.Conditions, api.ConditionReachable); reachable != nil && reachable.Reason == configured.Reason {
		meta.RemoveStatusCondition(&c.status.Conditions, api.ConditionReachable)
	}
	c.setTrue(api.ConditionConfigured, api.ReasonConfigured, "the node works at version "+version)
	c.status.BootstrapCredentialID = ""
}

// sandboxImageFailure returns the Node's condition about a sandbox image that its host could not pull; nil if there is none.
func sandboxImageFailure(node *corev1.Node) *corev1.NodeCondition {
	if c := nodestate.Condition(node, api.ConditionSandboxImage); c != nil && c.Status == corev1.ConditionFalse {
		return c
	}
	return nil
}

// sandboxImageReason returns the reason for it. A host may write any text as the reason on the Node, so only known reasons are copied.
func sandboxImageReason(node *corev1.Node) string {
	known := []string{
		api.ReasonSandboxImageNotFound, api.ReasonSandboxImageDenied, api.ReasonSandboxImageUnsuitable, api.ReasonSandboxImagePulling,
	}
	if lack := sandboxImageFailure(node); lack != nil && slices.Contains(known, lack.Reason) {
		return lack.Reason
	}
	return api.ReasonSandboxImagePullFailed
}

// observeSandboxImage copies the condition to the instance: a node that has another image stays in service meanwhile.
func (c conditions) observeSandboxImage(node *corev1.Node) {
	if node != nil {
		if lack := sandboxImageFailure(node); lack != nil {
			c.setFalse(api.ConditionSandboxImage, sandboxImageReason(node), truncate.Text(lack.Message, truncate.Reported))
			return
		}
	}
	meta.RemoveStatusCondition(&c.status.Conditions, api.ConditionSandboxImage)
}

// observeSupport reports a Windows version that no longer gets security updates. The node stays in service: only the user can replace its host.
func (c conditions) observeSupport(node *corev1.Node, now time.Time) {
	if node != nil {
		r, _ := windowsbuild.ReleaseOf(nodestate.WindowsBuild(node))
		if line, known := lifecycle.Of(lifecycle.WindowsServer, r.Version); known && line.Ended(now) {
			c.setTrue(api.ConditionWindowsUnsupported, api.ReasonWindowsEndOfSupport, fmt.Sprintf(
				"%s of node %s has had no security updates since %s (%s); add a host with a later Windows Server and name it in spec.replaceWith of this one, or replace its MachineSet",
				r.Name, node.Name, line.Ends.Format(time.DateOnly), line.Source))
			return
		}
	}
	meta.RemoveStatusCondition(&c.status.Conditions, api.ConditionWindowsUnsupported)
}

type conditions struct {
	status     *v1alpha1.WindowsInstanceStatus
	generation int64
}

func (c conditions) setTrue(kind, reason, message string) {
	c.set(kind, metav1.ConditionTrue, reason, message)
}

func (c conditions) setFalse(kind, reason, message string) {
	c.set(kind, metav1.ConditionFalse, reason, message)
}

func (c conditions) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&c.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: c.generation,
	})
}

// Reached sets condition Reachable after a connection that ended with err.
func Reached(st *v1alpha1.WindowsInstanceStatus, generation int64, err error) {
	conditions{st, generation}.reached(err)
}

// reached sets condition Reachable after an attempt that ended with err. For a host that rejects the login, the transition time is that of the first
// rejection, whatever made it unreachable before, because its Machine may be replaced for it.
func (c conditions) reached(err error) {
	var u *Unreachable
	var r *Rebooting
	if errors.As(err, &r) && r.Unanswered {
		c.setFalse(api.ConditionReachable, api.ReasonRebooting, r.Error())
		return
	}
	if errors.As(err, &u) {
		previous := meta.FindStatusCondition(c.status.Conditions, api.ConditionReachable)
		if previous != nil && previous.Reason != u.Reason && u.Reason == api.ReasonAuthenticationFailed {
			meta.RemoveStatusCondition(&c.status.Conditions, api.ConditionReachable)
		}
		c.setFalse(api.ConditionReachable, u.Reason, u.Error())
		return
	}
	c.setTrue(api.ConditionReachable, api.ReasonConnected, "connected, and the host key matches")
}

// supported sets condition Supported after an attempt that ended with err, unless it failed before the end of the check.
func (c conditions) supported(err error) {
	var u *Unsupported
	var failed *StepError
	switch {
	case errors.As(err, &u):
		c.setFalse(api.ConditionSupported, u.Reason, u.Message)
	case errors.As(err, &failed) && slices.Contains([]string{StepConnect, StepInspect, StepCheck}, failed.Step):
	default:
		c.setTrue(api.ConditionSupported, api.ReasonSupported, "the host meets the requirements of a node")
	}
}

// setIf sets a condition that reports a problem while the problem exists, and removes it otherwise.
func (c conditions) setIf(present bool, kind, reason string, err error) {
	if !present {
		meta.RemoveStatusCondition(&c.status.Conditions, kind)
		return
	}
	c.setTrue(kind, reason, err.Error())
}

// summarize copies the first other condition that reports a problem to Ready.
func (c conditions) summarize() {
	if s := meta.FindStatusCondition(c.status.Conditions, api.ConditionStalled); s != nil {
		c.setFalse(api.ConditionReady, s.Reason, s.Message)
		return
	}
	if s := meta.FindStatusCondition(c.status.Conditions, api.ConditionDraining); s != nil {
		c.setFalse(api.ConditionReady, s.Reason, s.Message)
		return
	}
	for _, kind := range []string{
		api.ConditionReachable, api.ConditionSupported, api.ConditionConfigured, api.ConditionNodeReady,
	} {
		s := meta.FindStatusCondition(c.status.Conditions, kind)
		if s != nil && s.Status != metav1.ConditionTrue {
			c.setFalse(api.ConditionReady, s.Reason, s.Message)
			return
		}
	}
	c.setTrue(api.ConditionReady, api.ReasonReady, "the host is a Ready node")
}
