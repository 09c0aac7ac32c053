package join

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/nodestate"
)

// How long things may take before something is done about them.
const (
	// RegisterTimeout is how long a configured host may take to register its Node before the join is repeated: longer than the
	// kubelet's own back-off, shorter than the token's life.
	RegisterTimeout = 5 * time.Minute
	// GoneTimeout is how long a Node that was there may be gone before its host is joined again. A kubelet registers when it starts, and not
	// again when its Node is deleted: nothing is gained by waiting for longer than somebody takes to delete the instance, too.
	GoneTimeout = time.Minute
	// RepairAfter is how long a node may not work before it is joined again, and how long that join is given to show.
	RepairAfter = nodestate.BrokenAfter
	// rebootTimeout is how long a host that restarts is waited for before it is looked at as if it had not been asked.
	rebootTimeout = 10 * time.Minute
	// rebootPoll is how often a restarting host is tried.
	rebootPoll = 5 * time.Second
	// windowsPoll is how often a host is tried whose Windows is busy with itself, outlivedRetry one that a restart did not help: somebody may
	// mend it.
	windowsPoll   = 30 * time.Second
	outlivedRetry = 10 * time.Minute
	// slotPoll is how often a host looks for a free place among the joining.
	slotPoll = 2 * time.Second
	// changedKeyRetry is how often a host is looked at that was refused for its key: it may be a passing mix-up of addresses.
	changedKeyRetry = 10 * time.Minute
	// blockedRetry is how often a host gets the programs again that its security software does not let run. Each attempt is an alert there.
	blockedRetry = 10 * time.Minute
)

// Seen is everything Next needs to know about an instance.
type Seen struct {
	Instance *v1alpha1.WindowsInstance
	// Node of the instance; nil where there is none.
	Node *corev1.Node
	// Conflict is the Node of another machine that has the name of the host; nil where there is none.
	Conflict *corev1.Node
	// Version the node shall report.
	Version string
	// Settings are those published for Version, since SettingsSince; empty when there are none.
	Settings      string
	SettingsSince time.Time
	// AllPaused is WindowsConfig's rollout.paused.
	AllPaused bool
	// Unfit says why no host may become a node of Version; empty when they may.
	Unfit string
	// Unguarded says what is wrong with the admission policies that limit hosts; empty when they are in force.
	Unguarded string
	// KeyFault says what is wrong with the SSH key; nil when it is good.
	KeyFault *Stall
	// NotBefore is when the instance may be tried again after a failure; zero for at once.
	NotBefore time.Time
	// Former says that the host had come to another version; Turn, that it is its turn to come to this one by a join.
	Former, Turn bool
	// FleetSilent says that so many nodes are silent that the cause is hardly this host's: it is not repaired meanwhile.
	FleetSilent bool
	// SlotFree says whether another host may join now.
	SlotFree bool
	Now      time.Time
}

// Action is what happens to an instance.
type Action string

// The actions.
const (
	// None: nothing; events of the Node or the objects bring the instance back.
	None Action = "None"
	// Requeue: nothing now; look again after Decision.After.
	Requeue Action = "Requeue"
	// Join runs a join.
	Join Action = "Join"
)

// Decision is what happens to an instance now, and why.
type Decision struct {
	Action Action
	// Err is what the status shall say as long as nothing happens; nil leaves it as it is.
	Err   error
	After time.Duration
}

// Stall means that only the user can help.
type Stall struct {
	Reason  string
	Message string
}

// Error makes Stall an error.
func (s *Stall) Error() string { return s.Message }

// Paused means that the user holds the instance where it is.
type Paused struct{ By string }

// Error makes Paused an error.
func (p *Paused) Error() string { return p.By + " holds this host where it is" }

// Next says what happens to an instance. The first check that speaks decides.
func Next(s Seen) Decision {
	checks := []func(Seen) (Decision, bool){
		leaving,     // it is on its way out
		inConflict,  // another machine registered a Node of its name
		ofOther,     // its node has another version, and goes to ours in its turn
		settled,     // the host has joined and its Node is there, or still has time to come
		former,      // it registers with the version it has, or waits for its turn to come to another
		paused,      // the user says to wait
		unguarded,   // its identities would not be limited to what they are for
		unfit,       // its kubelet would not go with the API server
		keyUnusable, // without a key there is no way in
		backingOff,  // it failed just now
		noSlot,      // enough others are joining
	}
	for _, check := range checks {
		if d, speaks := check(s); speaks {
			return d
		}
	}
	return Decision{Action: Join}
}

func leaving(s Seen) (Decision, bool) {
	return Decision{Action: None}, s.Instance.DeletionTimestamp != nil
}

// inConflict leaves a host alone whose name another machine has by now: more identities of it are the last that it may have. It joins again
// when the user gives it another name.
func inConflict(s Seen) (Decision, bool) {
	if s.Conflict == nil {
		return Decision{}, false
	}
	had, _, _ := strings.Cut(s.Instance.Status.Hostname, ".")
	accepted := s.Instance.Annotations[api.AnnotationAcceptHostname]
	if accepted != "" && accepted != s.Instance.Status.Hostname || s.Instance.Spec.Hostname != "" && s.Instance.Spec.Hostname != had {
		return Decision{}, false
	}
	return Decision{Action: None, Err: unsupported(api.ReasonHostnameConflict,
		"Node %s%s is another machine's: it was registered at another address than the host's (%s); rename that machine, delete the Node if it is left "+
			"from this host, or rename the host and annotate the WindowsInstance with %s=<its new name>",
		s.Conflict.Name, nodestate.Described(s.Conflict), s.Instance.Status.NodeIP, api.AnnotationAcceptHostname)}, true
}

// ofOther leaves a node of another version as it is, whatever became of the last join: one more would bring it to ours, before its turn and with
// its pods on it. It is upgraded when the plan says so, also to be mended.
func ofOther(s Seen) (Decision, bool) {
	return Decision{Action: None}, s.Node != nil && OfOtherVersion(s.Node, s.Version)
}

// turnPoll is how often it is looked whether it is a host's turn; the plan tells, too.
const turnPoll = 30 * time.Second

// former leaves a host alone that has another version, and whose Node is gone or was made again just now: its kubelet registers when it starts,
// and WICD reports the version. Otherwise whatever is deleted and comes back would be upgraded before its turn.
func former(s Seen) (Decision, bool) {
	isUnknown := s.Node == nil || s.Node.Annotations[api.AnnotationVersion] == ""
	return Decision{Action: Requeue, After: turnPoll}, s.Former && isUnknown && (!s.Turn || s.Node != nil)
}

// OfOtherVersion says whether a Node says that it has another version.
func OfOtherVersion(node *corev1.Node, version string) bool {
	has := node.Annotations[api.AnnotationVersion]
	return has != "" && has != version
}

// settled trusts condition Configured only to spare a host a visit: where it is wrong, the Node stays away
// and the join, which changes nothing on a host that has everything, is repeated.
func settled(s Seen) (Decision, bool) {
	configured := meta.FindStatusCondition(s.Instance.Status.Conditions, api.ConditionConfigured)
	isConfigured := configured != nil && configured.Status == "True"
	// A repair that failed says that the host is not configured. It has waited for long, and the next one does so, too.
	if since, is := s.BrokenSince(); is && (isConfigured || s.Instance.Status.Payload.Since != nil) {
		return s.repair(since)
	}
	if !isConfigured {
		return Decision{}, false
	}
	if s.Node != nil {
		return Decision{Action: None}, true
	}
	left := s.registersBy(configured.LastTransitionTime.Time).Sub(s.Now)
	return Decision{Action: Requeue, After: left}, left > 0
}

// MaxRepairs is how often a node that does not work is joined again before that is left to the user.
const MaxRepairs = 5

// repair joins a node again that does not work, more and more seldom: the kubelet, its certificate, or WICD may be beyond what the
// host can mend alone. The join finds what is missing, hands over a new token, and touches nothing that works.
func (s Seen) repair(since time.Time) (Decision, bool) {
	wait, tried := RepairAfter, int32(0)
	if f := s.Instance.Status.Failure; f != nil && f.Action == v1alpha1.ActionRepair {
		tried = f.Attempts
		wait <<= min(tried, MaxRepairs)
		since = later(since, f.At.Time)
	}
	if tried >= MaxRepairs {
		return Decision{Action: None, Err: &Stall{Reason: api.ReasonRepairFailed, Message: fmt.Sprintf(
			"the node was joined again %d times and does not work: %s; look at the host, then annotate the WindowsInstance with %s=true",
			tried, s.Instance.Status.Failure.Message, api.AnnotationRetry)}}, true
	}
	left := later(since, lastConfigured(s.Instance)).Add(wait).Sub(s.Now)
	if left <= 0 && s.FleetSilent && !nodestate.IsReady(s.Node) {
		left = silencePoll
	}
	return Decision{Action: Requeue, After: left}, left > 0
}

// silencePoll is how often it is looked whether a silent fleet is heard from again.
const silencePoll = time.Minute

// BrokenSince is since when the node of an instance does not work: its kubelet is silent, or says that it is not ready, or WICD
// has told nothing since Windows started, or has not followed the settings although the node has their version. A node of another version is not joined again, which would
// bring it to ours: it goes there when it is its turn.
func (s Seen) BrokenSince() (since time.Time, is bool) {
	if s.Node == nil {
		return time.Time{}, false
	}
	if OfOtherVersion(s.Node, s.Version) {
		return time.Time{}, false
	}
	ready := nodestate.Ready(s.Node)
	if ready == nil {
		return time.Time{}, false
	}
	if ready.Status == corev1.ConditionFalse && nodestate.WaitsForCloud(s.Node) {
		return time.Time{}, false // the network may need what the cloud tells of the node
	}
	if ready.Status == corev1.ConditionFalse && lacksSandboxImage(s.Node) != nil {
		return time.Time{}, false // WICD works, and goes on pulling: a join would help with nothing
	}
	if ready.Status != corev1.ConditionTrue {
		return ready.LastTransitionTime.Time, true
	}
	if wicdIsSilent(s.Node) {
		return ready.LastTransitionTime.Time, true
	}
	lags := s.Settings != "" && s.Node.Annotations[api.AnnotationVersion] == s.Version && s.Node.Annotations[api.AnnotationSettings] != s.Settings
	return later(s.SettingsSince, ready.LastTransitionTime.Time), lags
}

// wicdIsSilent says that WICD has told nothing since Windows started: the kubelet names another start of Windows than WICD did. Windows does
// not start a service again that did not answer within 30 seconds at that start (error 1053); a join does. A kubelet becomes Ready anew with
// each start, so that condition Ready says since when. The Node of a host whose WICD names no start says nothing.
func wicdIsSilent(node *corev1.Node) bool {
	told, is := node.Annotations[api.AnnotationBootID], node.Status.NodeInfo.BootID
	return nodestate.IsBootID(told) && nodestate.IsBootID(is) && told != is
}

// Findings says what is wrong with a node that does not work, as far as it says so itself.
func Findings(s Seen, err error) string {
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
		parts = append(parts, fmt.Sprintf("service %s has told nothing since Windows started; see log System of Windows for events 7000 and 7009, and %s",
			api.WICDService, desired.Logs+`\`+api.WICDService))
	}
	if len(parts) == 0 {
		parts = append(parts, "WICD has not applied the published settings; see "+desired.Logs+`\`+api.WICDService)
	}
	return strings.Join(parts, "; ")
}

// lastConfigured is when the last join was done with the host.
func lastConfigured(i *v1alpha1.WindowsInstance) (at time.Time) {
	for _, s := range i.Status.Steps {
		if s.Name == StepConfigure && s.FinishedAt != nil {
			at = s.FinishedAt.Time
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// registersBy is until when the Node of a host is waited for: from when it was last known to be there, or else from when the host was configured.
func (s Seen) registersBy(configured time.Time) time.Time {
	c := meta.FindStatusCondition(s.Instance.Status.Conditions, api.ConditionNodeReady)
	if c != nil && c.Reason == api.ReasonNodeMissing && c.LastTransitionTime.After(configured) {
		return c.LastTransitionTime.Add(GoneTimeout)
	}
	return configured.Add(RegisterTimeout)
}

func paused(s Seen) (Decision, bool) {
	switch {
	case s.Instance.Spec.Paused:
		return Decision{Action: None, Err: &Paused{By: "spec.paused of the WindowsInstance"}}, true
	case s.AllPaused:
		return Decision{Action: None, Err: &Paused{By: `spec.rollout.paused of WindowsConfig "cluster"`}}, true
	}
	return Decision{}, false
}

// unguardedPoll is how often it is looked whether the policies are back.
const unguardedPoll = 30 * time.Second

// unguarded keeps hosts from getting identities, those that are mended, too.
func unguarded(s Seen) (Decision, bool) {
	return Decision{Action: Requeue, After: unguardedPoll, Err: Unguarded(s.Unguarded)}, s.Unguarded != ""
}

// Unguarded is the Stall of a host that waits for the admission policies.
func Unguarded(finding string) *Stall {
	return &Stall{Reason: api.ReasonPoliciesAltered, Message: finding}
}

// unfitPoll is how often it is looked whether the version has become fit: the API server was upgraded.
const unfitPoll = 5 * time.Minute

// unfit keeps new nodes away. One that is there already is repaired as it is.
func unfit(s Seen) (Decision, bool) {
	if s.Unfit == "" || s.Node != nil {
		return Decision{}, false
	}
	return Decision{Action: Requeue, After: unfitPoll, Err: &Stall{Reason: api.ReasonVersionSkewUnsupported, Message: s.Unfit}}, true
}

func keyUnusable(s Seen) (Decision, bool) {
	if s.KeyFault == nil {
		return Decision{}, false
	}
	return Decision{Action: None, Err: s.KeyFault}, true
}

func backingOff(s Seen) (Decision, bool) {
	left := s.NotBefore.Sub(s.Now)
	return Decision{Action: Requeue, After: left}, left > 0
}

func noSlot(s Seen) (Decision, bool) { return Waiting(), !s.SlotFree }

// Waiting is the decision for a host that waits its turn.
func Waiting() Decision { return Decision{Action: Requeue, Err: ErrNoSlot, After: slotPoll} }

// RebootedFrom is the boot ID of a host that was restarted for its join and is still waited for, or empty.
func RebootedFrom(i *v1alpha1.WindowsInstance, now time.Time) string {
	c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionRebootRequired)
	if c == nil || c.Status != "True" || c.Reason != api.ReasonRebooting || now.Sub(c.LastTransitionTime.Time) > rebootTimeout {
		return ""
	}
	return i.Status.BootID
}
