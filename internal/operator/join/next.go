package join

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Timeouts and intervals.
const (
	// RegisterTimeout is how long a configured host may take to register its Node before the join is repeated: longer than the kubelet's own
	// back-off, shorter than the token's lifetime.
	RegisterTimeout = 5 * time.Minute
	// NodeMissingTimeout is how long a registered Node may be gone before its host joins again. A kubelet registers when it starts, and not again when its
	// Node is deleted, so a longer wait only gives an administrator time to delete the instance as well.
	NodeMissingTimeout = time.Minute
	// RepairAfter is how long a node may be broken before it joins again, and how long that join has to take effect.
	RepairAfter = nodestate.BrokenAfter
	// rebootTimeout is how long the operator waits for a restarting host before it handles the host as if no restart had been requested.
	rebootTimeout = 10 * time.Minute
	// rebootPoll is the retry interval for a restarting host.
	rebootPoll = 5 * time.Second
	// windowsPoll is the retry interval while Windows is busy. rebootFailedRetry is the retry interval after a restart that did not help, until an
	// administrator fixes the cause.
	windowsPoll       = 30 * time.Second
	rebootFailedRetry = 10 * time.Minute
	// slotPoll is how often a host checks for a free join slot.
	slotPoll = 2 * time.Second
	// changedKeyRetry is the retry interval for a host that was rejected for its key: two addresses may have been mixed up temporarily.
	changedKeyRetry = 10 * time.Minute
	// blockedRetry is the retry interval for a host whose security software blocks the programs. Each attempt raises an alert there.
	blockedRetry = 10 * time.Minute
)

// Observed is everything Next needs to know about an instance.
type Observed struct {
	Instance *v1alpha1.WindowsInstance
	// Node is the instance's Node; nil if there is none.
	Node *corev1.Node
	// Conflict is the Node of another machine that has the host's name; nil if there is none.
	Conflict *corev1.Node
	// Version is the version that the node should report.
	Version string
	// Settings identifies the settings published for Version, since SettingsSince; empty if there are none.
	Settings      string
	SettingsSince time.Time
	// AllPaused is WindowsConfig's rollout.paused.
	AllPaused bool
	// VersionFault explains why no host may become a node of Version; empty if hosts may.
	VersionFault string
	// PoliciesFault describes a problem with the admission policies that restrict hosts; empty if they are in force.
	PoliciesFault string
	// KeyFault describes a problem with the SSH key; nil if there is none.
	KeyFault *Stall
	// NotBefore is the earliest time of a retry after a failure; zero means now.
	NotBefore time.Time
	// Former means that the host has had another version before; MayJoin, that the plan now lets it join with this version.
	Former, MayJoin bool
	// FleetSilent means that so many nodes are silent that this host is unlikely to be the cause; it is not repaired meanwhile.
	FleetSilent bool
	// SlotFree reports whether another host may join now.
	SlotFree bool
	Now      time.Time
}

// Action is what happens to an instance.
type Action string

// The actions.
const (
	// None: do nothing; events of the Node or the objects trigger the next reconciliation.
	None Action = "None"
	// Requeue: do nothing now; check again after Decision.After.
	Requeue Action = "Requeue"
	// Join runs a join.
	Join Action = "Join"
)

// Decision is what happens to an instance now, and why.
type Decision struct {
	Action Action
	// Err is reported in the status while nothing happens; nil leaves the status unchanged.
	Err   error
	After time.Duration
}

// Stall means that the user must act.
type Stall struct {
	Reason  string
	Message string
}

// Error implements error.
func (s *Stall) Error() string { return s.Message }

// Paused means that the user has paused the instance.
type Paused struct{ By string }

// Error implements error.
func (p *Paused) Error() string { return "paused by " + p.By }

// Next decides what happens to an instance: the first check that returns true wins.
func Next(s Observed) Decision {
	checks := []func(Observed) (Decision, bool){
		leaving,            // the instance is being deleted
		inConflict,         // another machine registered a Node of its name
		otherVersion,       // its node has another version, and is upgraded by the plan
		alreadyJoined,      // the host has joined, and its Node exists or still has time to register
		previousVersion,    // it registers with its old version, or waits for the plan to move it to this one
		replaced,           // another host has taken its place, or should
		paused,             // the user has paused it
		policiesAltered,    // the policies that restrict its identities are not in force
		unsupportedVersion, // its kubelet is not compatible with the API server
		keyUnusable,        // without a key, the operator cannot log in
		backingOff,         // it failed recently
		noSlot,             // enough others are joining
	}
	for _, check := range checks {
		if d, decided := check(s); decided {
			return d
		}
	}
	return Decision{Action: Join}
}

func leaving(s Observed) (Decision, bool) {
	return Decision{Action: None}, s.Instance.DeletionTimestamp != nil
}

// inConflict skips a host whose name another machine has taken, because the host must not get further identities of that name. It joins again when
// the user gives it another name.
func inConflict(s Observed) (Decision, bool) {
	if s.Conflict == nil {
		return Decision{}, false
	}
	previous, _, _ := strings.Cut(s.Instance.Status.Hostname, ".")
	accepted := s.Instance.Annotations[api.AnnotationAcceptHostname]
	if accepted != "" && accepted != s.Instance.Status.Hostname || s.Instance.Spec.Hostname != "" && s.Instance.Spec.Hostname != previous {
		return Decision{}, false
	}
	return Decision{Action: None, Err: unsupported(api.ReasonHostnameConflict,
		"Node %s%s belongs to another machine: its address is not the host's (%s); rename that machine, delete the Node if it is left over "+
			"from this host, or rename the host and annotate the WindowsInstance with %s=<its new name>",
		s.Conflict.Name, nodestate.Describe(s.Conflict), s.Instance.Status.NodeIP, api.AnnotationAcceptHostname)}, true
}

// otherVersion skips a node of another version, however its last join ended: another join would upgrade it ahead of the plan and with its pods running.
// The plan upgrades it, even if it needs a repair.
func otherVersion(s Observed) (Decision, bool) {
	return Decision{Action: None}, s.Node != nil && HasOtherVersion(s.Node, s.Version)
}

// planPoll is how often a waiting host checks whether the plan lets it join; a change of the plan also triggers the check.
const planPoll = 30 * time.Second

// previousVersion skips a host of another version whose Node is gone or was just recreated: its kubelet registers when it starts, and WICD reports the
// version. Otherwise deleting a Node would upgrade its host ahead of the plan.
func previousVersion(s Observed) (Decision, bool) {
	isUnknown := s.Node == nil || s.Node.Annotations[api.AnnotationVersion] == ""
	return Decision{Action: Requeue, After: planPoll}, s.Former && isUnknown && (!s.MayJoin || s.Node != nil)
}

// HasOtherVersion reports whether a Node reports another version.
func HasOtherVersion(node *corev1.Node, version string) bool {
	existing := node.Annotations[api.AnnotationVersion]
	return existing != "" && existing != version
}

// alreadyJoined trusts condition Configured only to save a visit to the host: if it is wrong, the Node does not register and the join is repeated, which
// changes nothing on a fully configured host.
func alreadyJoined(s Observed) (Decision, bool) {
	configured := meta.FindStatusCondition(s.Instance.Status.Conditions, api.ConditionConfigured)
	isConfigured := configured != nil && configured.Status == "True"
	// After a failed repair, the host is not Configured. It has waited long enough, and so does the next repair.
	if since, ok := s.BrokenSince(); ok && (isConfigured || s.Instance.Status.Payload.Since != nil) {
		return s.repair(since)
	}
	if !isConfigured {
		return Decision{}, false
	}
	if s.Node != nil {
		return Decision{Action: None}, true
	}
	remaining := s.registersBy(configured.LastTransitionTime.Time).Sub(s.Now)
	return Decision{Action: Requeue, After: remaining}, remaining > 0
}

// MaxRepairs is how many times a broken node joins again before the user must act.
const MaxRepairs = 5

// repair joins a broken node again, with back-off: the kubelet, its certificate or WICD may have a problem that the host cannot fix alone. The join
// restores what is missing, provides a new token, and leaves working parts alone.
func (s Observed) repair(since time.Time) (Decision, bool) {
	wait, tried := RepairAfter, int32(0)
	if f := s.Instance.Status.Failure; f != nil && f.Action == v1alpha1.ActionRepair {
		tried = f.Attempts
		wait <<= min(tried, MaxRepairs)
		since = nodestate.Later(since, f.At.Time)
	}
	if tried >= MaxRepairs {
		return Decision{Action: None, Err: &Stall{Reason: api.ReasonRepairFailed, Message: fmt.Sprintf(
			"the node still does not work after %d repairs: %s; check the host, then annotate the WindowsInstance with %s=true",
			tried, s.Instance.Status.Failure.Message, api.AnnotationRetry)}}, true
	}
	remaining := nodestate.Later(since, lastConfigured(s.Instance)).Add(wait).Sub(s.Now)
	if remaining <= 0 && s.FleetSilent && !nodestate.IsReady(s.Node) {
		remaining = silencePoll
	}
	return Decision{Action: Requeue, After: remaining}, remaining > 0
}

// silencePoll is how often a host checks whether the silent fleet has recovered.
const silencePoll = time.Minute

// BrokenSince returns when the instance's node broke: its kubelet is silent or reports not Ready, WICD has reported nothing since
// Windows started, or WICD has not applied the settings although the node has their version. A node of another version does not count, because a join
// would upgrade it ahead of the plan.
func (s Observed) BrokenSince() (since time.Time, ok bool) {
	if s.Node == nil {
		return time.Time{}, false
	}
	if HasOtherVersion(s.Node, s.Version) {
		return time.Time{}, false
	}
	ready := nodestate.Ready(s.Node)
	if ready == nil {
		return time.Time{}, false
	}
	if ready.Status == corev1.ConditionFalse && nodestate.WaitsForCloud(s.Node) {
		return time.Time{}, false // the network may need what the cloud sets on the node
	}
	if ready.Status == corev1.ConditionFalse && sandboxImageFailure(s.Node) != nil {
		return time.Time{}, false // WICD works and keeps pulling; a join would not help
	}
	if ready.Status != corev1.ConditionTrue {
		return ready.LastTransitionTime.Time, true
	}
	if wicdIsSilent(s.Node) {
		return ready.LastTransitionTime.Time, true
	}
	lags := s.Settings != "" && s.Node.Annotations[api.AnnotationVersion] == s.Version && s.Node.Annotations[api.AnnotationSettings] != s.Settings
	return nodestate.Later(s.SettingsSince, ready.LastTransitionTime.Time), lags
}

// HasJoined reports whether kubelet and WICD have their certificates, so that the host no longer needs its token. A Node that the host already had
// before the join, under another operator or version, proves nothing, and neither does one whose WICD has not reported.
func (s Observed) HasJoined() bool {
	if s.Node == nil || s.Node.Annotations[api.AnnotationVersion] != s.Version {
		return false
	}
	_, isBroken := s.BrokenSince()
	return nodestate.IsReady(s.Node) && !isBroken
}

// wicdIsSilent reports that WICD has reported nothing since Windows started: the kubelet reports another boot ID than WICD did. Windows does not
// retry a service that did not answer within 30 seconds at that start (error 1053); a join starts it. A kubelet becomes Ready again at each start, so
// condition Ready dates the silence. Without WICD's boot ID, the result is false.
func wicdIsSilent(node *corev1.Node) bool {
	reported, current := node.Annotations[api.AnnotationBootID], node.Status.NodeInfo.BootID
	return nodestate.IsBootID(reported) && nodestate.IsBootID(current) && reported != current
}

// Findings describes what is wrong with a broken node, as far as err and the Node's conditions show it.
func Findings(s Observed, err error) string {
	var parts []string
	if err != nil {
		parts = append(parts, err.Error())
	}
	for _, c := range s.Node.Status.Conditions {
		isFinding := c.Type == corev1.NodeReady || c.Type == api.ConditionServicesHealthy || c.Type == api.ConditionSandboxImage
		if isFinding && c.Status != corev1.ConditionTrue {
			parts = append(parts, fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message))
		}
	}
	if len(parts) == 0 && wicdIsSilent(s.Node) {
		parts = append(parts, fmt.Sprintf("service %s has not reported since Windows started; see events 7000 and 7009 in Windows event log System, and %s",
			api.WICDService, desired.WICDLog))
	}
	if len(parts) == 0 {
		parts = append(parts, "WICD has not applied the published settings; see "+desired.WICDLog)
	}
	return strings.Join(parts, "; ")
}

// lastConfigured returns when the last join configured the host.
func lastConfigured(i *v1alpha1.WindowsInstance) (at time.Time) {
	for _, s := range i.Status.Steps {
		if s.Name == StepConfigure && s.FinishedAt != nil {
			at = s.FinishedAt.Time
		}
	}
	return at
}

// registersBy returns how long to wait for the host's Node, counted from when the Node was last known to exist, or else from when the host was
// configured.
func (s Observed) registersBy(configured time.Time) time.Time {
	c := meta.FindStatusCondition(s.Instance.Status.Conditions, api.ConditionNodeReady)
	if c != nil && c.Reason == api.ReasonNodeMissing && c.LastTransitionTime.After(configured) {
		return c.LastTransitionTime.Add(NodeMissingTimeout)
	}
	return configured.Add(RegisterTimeout)
}

// replaced skips a host that is not a node and that another one should replace. A node is still repaired until then.
func replaced(s Observed) (Decision, bool) {
	i := s.Instance
	if i.Spec.ReplaceWith == "" || i.Labels[api.LabelSource] != "" || i.Status.NodeRef != nil {
		return Decision{}, false
	}
	return Decision{Action: None, Err: &Stall{Reason: api.ReasonReplaced, Message: fmt.Sprintf(
		"spec.replaceWith is %s, so this host does not join: delete its WindowsInstance, or remove the field", i.Spec.ReplaceWith)}}, true
}

func paused(s Observed) (Decision, bool) {
	switch {
	case s.Instance.Spec.Paused:
		return Decision{Action: None, Err: &Paused{By: "spec.paused of the WindowsInstance"}}, true
	case s.AllPaused:
		return Decision{Action: None, Err: &Paused{By: `spec.rollout.paused of WindowsConfig "cluster"`}}, true
	}
	return Decision{}, false
}

// policiesPoll is how often the policies are checked again.
const policiesPoll = 30 * time.Second

// policiesAltered blocks joins and repairs while the admission policies are not in force.
func policiesAltered(s Observed) (Decision, bool) {
	return Decision{Action: Requeue, After: policiesPoll, Err: PoliciesAltered(s.PoliciesFault)}, s.PoliciesFault != ""
}

// PoliciesAltered returns the Stall of a host that waits for the admission policies.
func PoliciesAltered(finding string) *Stall {
	return &Stall{Reason: api.ReasonPoliciesAltered, Message: finding}
}

// versionPoll is how often the version is checked again: the API server may have been upgraded.
const versionPoll = 5 * time.Minute

// unsupportedVersion blocks new nodes. An existing node is repaired with the version it has.
func unsupportedVersion(s Observed) (Decision, bool) {
	if s.VersionFault == "" || s.Node != nil {
		return Decision{}, false
	}
	return Decision{Action: Requeue, After: versionPoll, Err: &Stall{Reason: api.ReasonVersionSkewUnsupported, Message: s.VersionFault}}, true
}

func keyUnusable(s Observed) (Decision, bool) {
	if s.KeyFault == nil {
		return Decision{}, false
	}
	return Decision{Action: None, Err: s.KeyFault}, true
}

func backingOff(s Observed) (Decision, bool) {
	remaining := s.NotBefore.Sub(s.Now)
	return Decision{Action: Requeue, After: remaining}, remaining > 0
}

func noSlot(s Observed) (Decision, bool) { return Waiting(), !s.SlotFree }

// Waiting returns the decision for a host that waits for a slot.
func Waiting() Decision { return Decision{Action: Requeue, Err: ErrNoSlot, After: slotPoll} }

// RebootedFrom returns the boot ID of a host that was restarted for its join and has not come back yet; empty if there is no such restart.
func RebootedFrom(i *v1alpha1.WindowsInstance, now time.Time) string {
	c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionRebootRequired)
	if c == nil || c.Status != "True" || c.Reason != api.ReasonRebooting || now.Sub(c.LastTransitionTime.Time) > rebootTimeout {
		return ""
	}
	return i.Status.BootID
}
