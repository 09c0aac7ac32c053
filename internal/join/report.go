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
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/lifecycle"
	"github.com/windows-machine-config/wmco/internal/nodestate"
	"github.com/windows-machine-config/wmco/internal/shorten"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
)

// Unreachable means that no connection came about, or that it did not last.
type Unreachable struct {
	// Reason is one of the reasons of condition Reachable.
	Reason string
	Err    error
}

// Error makes Unreachable an error.
func (u *Unreachable) Error() string { return u.Err.Error() }

// Unwrap returns what the connection said.
func (u *Unreachable) Unwrap() error { return u.Err }

// Retry says how long to wait before the join is tried again after err; ok is false where only the back-off
// of failures says so.
func Retry(err error) (after time.Duration, ok bool) {
	var rebooting *Rebooting
	var unreachable *Unreachable
	var blocked *Blocked
	switch {
	case errors.As(err, &rebooting):
		return rebootPoll, true
	case isWindowsBusy(err):
		return windowsPoll, true
	case didNotHelp(err):
		return outlivedRetry, true
	case errors.Is(err, ErrNoSlot):
		return slotPoll, true
	case errors.Is(err, ErrOccupied):
		return time.Minute, true // its turn comes with the plan
	case errors.As(err, &unreachable) && isOfHostKey(unreachable.Reason):
		return changedKeyRetry, true
	case errors.As(err, &blocked):
		return blockedRetry, true
	}
	return 0, false
}

// Reason is the reason that users and metrics are given for err.
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
	wicd := agent.Failed(err)
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
	case errors.Is(err, agent.ErrTooSlow):
		return api.ReasonTransferTooSlow
	default:
		return api.ReasonJoinFailed
	}
}

// reasonsOfWICD are the reasons for failures that WICD reports.
func reasonsOfWICD() map[agent.Code]string {
	return map[agent.Code]string{
		agent.CodeContentAltered: api.ReasonContentAltered, agent.CodeRebootDidNotHelp: api.ReasonRebootDidNotHelp,
		agent.CodeWaitingForSetup: api.ReasonWaitingForWindowsSetup, agent.CodeServicing: api.ReasonWindowsServicing,
		agent.CodeDISMSilent: api.ReasonDISMNotAnswering,
	}
}

// isWindowsBusy says whether Windows has to finish something before the join goes on.
func isWindowsBusy(err error) bool {
	wicd := agent.Failed(err)
	return wicd != nil && (wicd.Code == agent.CodeWaitingForSetup || wicd.Code == agent.CodeServicing)
}

// didNotHelp says whether the host was restarted for its join, and needs that again.
func didNotHelp(err error) bool {
	wicd := agent.Failed(err)
	return wicd != nil && wicd.Code == agent.CodeRebootDidNotHelp
}

// Report writes into the conditions what came of an attempt, or why there was none (attempted is false then).
func Report(st *v1alpha1.WindowsInstanceStatus, generation int64, attempted bool, err error) {
	set := conditions{st, generation}
	reason := Reason(err)
	set.absentUnless(isUsersTurn(err), api.ConditionStalled, reason, err)
	if unready := (*Unready)(nil); attempted && !errors.As(err, &unready) {
		if r := (*Rebooting)(nil); !errors.As(err, &r) || !r.Awaited { // else it says already what needed the restart
			set.absentUnless(reason == api.ReasonRebooting, api.ConditionRebootRequired, reason, err)
		}
		set.reached(err)
		set.supported(err)
	}
	if u := (*Unsupported)(nil); !attempted && errors.As(err, &u) {
		set.awaitsNoRestart()
	}
	switch {
	case reason == api.ReasonRepairFailed: // the host has everything, or it would not be a repair
	case err != nil:
		set.not(api.ConditionConfigured, reason, err.Error())
	case attempted:
		set.is(api.ConditionConfigured, reason, "the host has everything it needs and its services are installed")
	}
}

// awaitsNoRestart removes what was said of a restart: nobody looks any more whether the host is back.
func (c conditions) awaitsNoRestart() {
	for _, kind := range []string{api.ConditionRebootRequired, api.ConditionReachable} {
		if was := meta.FindStatusCondition(c.status.Conditions, kind); was != nil && was.Reason == api.ReasonRebooting {
			meta.RemoveStatusCondition(&c.status.Conditions, kind)
		}
	}
}

// isOfHostKey says whether a host was refused for the key that it shows.
func isOfHostKey(reason string) bool {
	return slices.Contains([]string{api.ReasonHostKeyChanged, api.ReasonHostKeyUnknown, api.ReasonHostKeyUnsuitable}, reason)
}

// isUsersTurn says whether only the user can help.
func isUsersTurn(err error) bool {
	var stall *Stall
	reason := Reason(err)
	return errors.As(err, &stall) || didNotHelp(err) || reason == api.ReasonAddressInvalid || isOfHostKey(reason)
}

// ErrCluster is the class of errors about what the cluster does not tell of itself.
var ErrCluster = errors.New("reading the cluster")

// Observe writes into the status what the Node says of the host, and sums all conditions up in Ready. After again, where that is not 0, it
// may say something else although nothing has changed.
func Observe(st *v1alpha1.WindowsInstanceStatus, generation int64, node *corev1.Node, version string, now time.Time) (again time.Duration) {
	set := conditions{st, generation}
	st.NodeRef = nodestate.Refer(node)
	switch {
	case node == nil && st.NodeConflict != nil:
		set.not(api.ConditionNodeReady, api.ReasonHostnameConflict, fmt.Sprintf("Node %s is not the host's: another machine registered it", st.NodeConflict.Name))
	case node == nil:
		set.not(api.ConditionNodeReady, api.ReasonNodeMissing, "the host has not registered a Node, or the Node was deleted; "+
			"where that lasts, a certificate request of the host was refused or denied (kubectl get csr), or its kubelet dies ("+desired.Logs+`\kubelet on the host)`)
	default:
		again = set.observe(node, version, now)
	}
	set.observeSandboxImage(node)
	set.observeSupport(node, now)
	set.sumUp()
	return again
}

// windows is the system of Windows nodes, in their label and their status.
const windows = "windows"

func (c conditions) observe(node *corev1.Node, version string, now time.Time) (again time.Duration) {
	kubelet := nodestate.Ready(node)
	reported := node.Annotations[api.AnnotationVersion]
	label, system := node.Labels[corev1.LabelOSStable], node.Status.NodeInfo.OperatingSystem
	switch {
	case label != "" && label != windows && system != windows:
		c.not(api.ConditionNodeReady, api.ReasonNodeNotWindows, fmt.Sprintf(
			"node %s says of itself that it is no Windows node (label %s=%s, status.nodeInfo.operatingSystem %q), so the operator may neither change nor delete it",
			node.Name, corev1.LabelOSStable, label, system))
	case lacksSandboxImage(node) != nil && kubelet != nil && kubelet.Status == corev1.ConditionFalse:
		c.not(api.ConditionNodeReady, sandboxImageReason(node), shorten.Text(fmt.Sprintf("node %s: %s", node.Name, lacksSandboxImage(node).Message), shorten.Reported))
	case nodestate.WaitsForCloud(node) && (kubelet == nil || kubelet.Status != corev1.ConditionUnknown):
		return c.waitForCloud(node, now)
	case kubelet == nil || kubelet.Status != corev1.ConditionTrue:
		message := "the kubelet has not reported yet"
		if kubelet != nil {
			message = kubelet.Message
		}
		if lacks := nodestate.Condition(node, api.ConditionWindowsNetworkUnavailable); kubelet != nil && lacks != nil && lacks.Status == corev1.ConditionTrue {
			message = shorten.Text(message+"; "+lacks.Message, shorten.Reported)
		}
		c.not(api.ConditionNodeReady, api.ReasonNodeNotReady, fmt.Sprintf("node %s: %s", node.Name, message))
	case reported == "":
		c.not(api.ConditionNodeReady, api.ReasonVersionPending,
			fmt.Sprintf("node %s is Ready; WICD has not yet reported version %s", node.Name, version))
	default:
		c.is(api.ConditionNodeReady, api.ReasonNodeReady, fmt.Sprintf("node %s is Ready with version %s", node.Name, reported))
		if configured := meta.FindStatusCondition(c.status.Conditions, api.ConditionConfigured); reported != version &&
			configured != nil && configured.Status != metav1.ConditionTrue && configured.Reason != api.ReasonAdoptionPending {
			c.worksAgain(*configured, reported)
		}
		c.status.BootstrapCredentialID = "" // kubelet and WICD have their certificates: the token is good for nothing more
	}
	return 0
}

// worksAgain ends what is said of the last join: it was a repair that failed, and is not needed any more. Whether the host can be reached by now,
// nobody knows.
func (c conditions) worksAgain(configured metav1.Condition, version string) {
	if reachable := meta.FindStatusCondition(c.status.Conditions, api.ConditionReachable); reachable != nil && reachable.Reason == configured.Reason {
		meta.RemoveStatusCondition(&c.status.Conditions, api.ConditionReachable)
	}
	c.is(api.ConditionConfigured, api.ReasonConfigured, "the node works with version "+version)
}

// lacksSandboxImage is what the Node says of a sandbox image that its host could not pull; nil where it has it, or says nothing.
func lacksSandboxImage(node *corev1.Node) *corev1.NodeCondition {
	if c := nodestate.Condition(node, api.ConditionSandboxImage); c != nil && c.Status == corev1.ConditionFalse {
		return c
	}
	return nil
}

// sandboxImageReason is the reason that the Node has for it. A host may write any text there, and the API server takes no other than reasons.
func sandboxImageReason(node *corev1.Node) string {
	known := []string{
		api.ReasonSandboxImageNotFound, api.ReasonSandboxImageDenied, api.ReasonSandboxImageUnsuitable, api.ReasonSandboxImagePulling,
	}
	if lack := lacksSandboxImage(node); lack != nil && slices.Contains(known, lack.Reason) {
		return lack.Reason
	}
	return api.ReasonSandboxImagePullFailed
}

// observeSandboxImage shows it on the instance, too: a node that has another image stays in service meanwhile.
func (c conditions) observeSandboxImage(node *corev1.Node) {
	if node != nil {
		if lack := lacksSandboxImage(node); lack != nil {
			c.not(api.ConditionSandboxImage, sandboxImageReason(node), shorten.Text(lack.Message, shorten.Reported))
			return
		}
	}
	meta.RemoveStatusCondition(&c.status.Conditions, api.ConditionSandboxImage)
}

// observeSupport tells of a Windows that gets no security updates any more. The node stays in service: only the user can replace its host.
func (c conditions) observeSupport(node *corev1.Node, now time.Time) {
	if node != nil {
		r, _ := windowsbuild.ReleaseOf(nodestate.WindowsBuild(node))
		if line, known := lifecycle.Of(lifecycle.WindowsServer, r.Version); known && line.Ended(now) {
			c.is(api.ConditionWindowsUnsupported, api.ReasonWindowsEndOfSupport, fmt.Sprintf(
				"%s of node %s has had no security updates since %s (%s); add a host with a later Windows Server, then drain and remove this one",
				r.Name, node.Name, line.Ends.Format(time.DateOnly), line.Source))
			return
		}
	}
	meta.RemoveStatusCondition(&c.status.Conditions, api.ConditionWindowsUnsupported)
}

// conditions writes the conditions of one status.
type conditions struct {
	status     *v1alpha1.WindowsInstanceStatus
	generation int64
}

func (c conditions) is(kind, reason, message string) {
	c.set(kind, metav1.ConditionTrue, reason, message)
}

func (c conditions) not(kind, reason, message string) {
	c.set(kind, metav1.ConditionFalse, reason, message)
}

func (c conditions) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&c.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: c.generation,
	})
}

// Reached writes what a connection that ended with err means for condition Reachable.
func Reached(st *v1alpha1.WindowsInstanceStatus, generation int64, err error) {
	conditions{st, generation}.reached(err)
}

// reached says what an attempt that ended with err means for Reachable. A host that refuses the key does so since it did for the
// first time, whatever kept it from being reached before: its Machine may be replaced for it.
func (c conditions) reached(err error) {
	var u *Unreachable
	var r *Rebooting
	if errors.As(err, &r) && r.Away {
		c.not(api.ConditionReachable, api.ReasonRebooting, r.Error())
		return
	}
	if errors.As(err, &u) {
		was := meta.FindStatusCondition(c.status.Conditions, api.ConditionReachable)
		if was != nil && was.Reason != u.Reason && u.Reason == api.ReasonAuthenticationFailed {
			meta.RemoveStatusCondition(&c.status.Conditions, api.ConditionReachable)
		}
		c.not(api.ConditionReachable, u.Reason, u.Error())
		return
	}
	c.is(api.ConditionReachable, api.ReasonConnected, "the host answered with the right key")
}

// supported says what an attempt that ended with err means for Supported: nothing, where it ended before the check.
func (c conditions) supported(err error) {
	var u *Unsupported
	var failed *StepError
	switch {
	case errors.As(err, &u):
		c.not(api.ConditionSupported, u.Reason, u.Message)
	case errors.As(err, &failed) && slices.Contains([]string{StepConnect, StepInspect, StepCheck}, failed.Step):
	default:
		c.is(api.ConditionSupported, api.ReasonSupported, "the host can be a node")
	}
}

// absentUnless keeps a condition that is bad when True: it is there only while it holds.
func (c conditions) absentUnless(holds bool, kind, reason string, err error) {
	if !holds {
		meta.RemoveStatusCondition(&c.status.Conditions, kind)
		return
	}
	c.is(kind, reason, err.Error())
}

// sumUp makes Ready follow the first of the other conditions that is not as it should be.
func (c conditions) sumUp() {
	if s := meta.FindStatusCondition(c.status.Conditions, api.ConditionStalled); s != nil {
		c.not(api.ConditionReady, s.Reason, s.Message)
		return
	}
	if s := meta.FindStatusCondition(c.status.Conditions, api.ConditionDraining); s != nil {
		c.not(api.ConditionReady, s.Reason, s.Message)
		return
	}
	for _, kind := range []string{
		api.ConditionReachable, api.ConditionSupported, api.ConditionConfigured, api.ConditionNodeReady,
	} {
		s := meta.FindStatusCondition(c.status.Conditions, kind)
		if s != nil && s.Status != metav1.ConditionTrue {
			c.not(api.ConditionReady, s.Reason, s.Message)
			return
		}
	}
	c.is(api.ConditionReady, api.ReasonReady, "the host is a Ready node")
}
