package fleetstatus

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// State is the state of a host, in one word.
type State string

// States of hosts.
const (
	// Ready means that the host is a working node.
	Ready State = "Ready"
	// Degraded means that the node is Ready, but something on it does not work.
	Degraded State = "Degraded"
	// NotReady means that the host was a working node and no longer is.
	NotReady State = "NotReady"
	// Failed means that the host is not a working node until the administrator acts.
	Failed State = "Failed"
	// Joining means that the host is becoming a node.
	Joining State = "Joining"
	// Waiting means that the host will become a node, but waits for a slot or is paused.
	Waiting State = "Waiting"
	// Maintenance means that an action is in progress: an upgrade, a reboot, a repair or a replacement.
	Maintenance State = "Maintenance"
	// Leaving means that the host is being removed.
	Leaving State = "Leaving"
	// Pending means that the operator has not reported on the host yet.
	Pending State = "Pending"
)

// Host is the state of one host.
type Host struct {
	// Name is the name of the WindowsInstance; Node the name of its Node, if there is one.
	Name string `json:"name"`
	Node string `json:"node,omitempty"`
	// Address is where the operator reaches the host; NodeIP is the address of the Node, Hostname the host's own name.
	Address  string `json:"address"`
	NodeIP   string `json:"nodeIP,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// PodNetworks are the ranges of the Node's pod addresses.
	PodNetworks []string `json:"podNetworks,omitempty"`
	// Source is what the WindowsInstance was created from; Machine is its Machine, if it has one.
	Source  string `json:"source"`
	Machine string `json:"machine,omitempty"`
	// State in one word, and its cause: the reason, the message, and since when.
	State   State     `json:"state"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Severity is the severity of the cause; Next is what to do next, and Docs the address of the documentation.
	Severity advice.Severity `json:"severity"`
	Next     string          `json:"next,omitempty"`
	Docs     string          `json:"docs,omitempty"`
	// Paused means that spec.paused holds the host; Cordoned, that its Node takes no new pods. CordonedFor is the action for which the operator
	// cordoned it: empty if another user or controller did.
	Paused      bool   `json:"paused,omitempty"`
	Cordoned    bool   `json:"cordoned,omitempty"`
	CordonedFor string `json:"cordonedFor,omitempty"`
	// Plan is the next action; Maintenance the one in progress; Failure the last failed one.
	Plan        *Plan    `json:"plan,omitempty"`
	Maintenance *Action  `json:"maintenance,omitempty"`
	Failure     *Failure `json:"failure,omitempty"`
	// Steps of the last join, in order.
	Steps []Step `json:"steps,omitempty"`
	// Versions of what runs on the host.
	Versions Versions `json:"versions"`
	// HostKey is the fingerprint of the host's SSH key.
	HostKey string `json:"hostKey,omitempty"`
	// Problems of the host; the most urgent comes first.
	Problems []Problem `json:"problems,omitempty"`
	// Conditions of the WindowsInstance and of its Node.
	Conditions []Condition `json:"conditions,omitempty"`
	// Services of the host, if its Node reports them.
	Services *Services `json:"services,omitempty"`
	// Pods of the node that do not run.
	Pods []Pod `json:"pods,omitempty"`
	// Events of the host and its Node; newest first.
	Events []Event `json:"events,omitempty"`
}

// Plan is the next action on a host.
type Plan struct {
	// Action and Disruption are those of status.plan.
	Action     string `json:"action"`
	Disruption string `json:"disruption"`
	// WaitsFor is the reason why it has not begun; empty while it runs.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Message is why it is due and what it waits for; Remedy is what to do.
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// Action is an action in progress.
type Action struct {
	// Action, Step, Disruption and Version are those of status.maintenance.
	Action     string `json:"action"`
	Step       string `json:"step"`
	Disruption string `json:"disruption"`
	Version    string `json:"version,omitempty"`
	// StartedAt is when the action began, StepStartedAt when its step did.
	StartedAt     time.Time `json:"startedAt"`
	StepStartedAt time.Time `json:"stepStartedAt"`
	// Message is what the step waits for.
	Message string `json:"message,omitempty"`
}

// Failure is an action that failed.
type Failure struct {
	// Action, Step, Version and Attempts are those of status.failure.
	Action   string `json:"action"`
	Step     string `json:"step,omitempty"`
	Version  string `json:"version,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// At is when it failed; Message is why.
	At      time.Time `json:"at"`
	Message string    `json:"message,omitempty"`
}

// Step is a step of the last join.
type Step struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// StartedAt is when it began; Seconds is how long it took, or has taken so far.
	StartedAt time.Time `json:"startedAt,omitzero"`
	Seconds   float64   `json:"seconds,omitempty"`
}

// Versions are the versions of a host.
type Versions struct {
	// Windows is the build of Windows; OSImage the name that the kubelet reports.
	Windows string `json:"windows,omitempty"`
	OSImage string `json:"osImage,omitempty"`
	// Kubelet and Runtime are the versions that the Node reports.
	Kubelet string `json:"kubelet,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	// Node is the version of everything on the host; Desired the version that its Node should get.
	Node    string `json:"node,omitempty"`
	Desired string `json:"desired,omitempty"`
	// Payload is the payload that the host was joined with, PayloadDesired the operator's, PayloadStaged the one sent in advance.
	Payload        string `json:"payload,omitempty"`
	PayloadDesired string `json:"payloadDesired,omitempty"`
	PayloadStaged  string `json:"payloadStaged,omitempty"`
	// Settings identifies the settings that the node has applied; SettingsCurrent is true if they are the published ones.
	Settings        string `json:"settings,omitempty"`
	SettingsCurrent bool   `json:"settingsCurrent"`
}

// Condition is a condition of a WindowsInstance or a Node.
type Condition struct {
	// Object is "WindowsInstance" or "Node".
	Object  string    `json:"object"`
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Good    bool      `json:"good"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

func (r *reader) host(i *v1alpha1.WindowsInstance) Host {
	h := Host{
		Name: i.Name, Address: label(i.Spec.Address), NodeIP: label(i.Status.NodeIP), Hostname: label(i.Status.Hostname),
		Source: sourceOf(i), Machine: label(i.Annotations[api.AnnotationMachine]), Paused: i.Spec.Paused, HostKey: label(i.Status.HostKeyFingerprint),
		Plan: r.planOf(i.Status.Plan), Maintenance: actionOf(i.Status.Maintenance), Failure: failureOf(i.Status.Failure), Steps: r.steps(i.Status.Steps),
	}
	node := r.nodeOf(i)
	if node != nil {
		h.Node, h.Cordoned, h.CordonedFor = node.Name, node.Spec.Unschedulable, label(node.Annotations[api.AnnotationCordoned])
		h.PodNetworks, h.Services = podNetworks(node), servicesOf(node)
	}
	h.Versions = r.versions(i, node)
	h.Conditions = conditionsOf(i, node)
	h.Events = r.eventsOf(object{"WindowsInstance", i.Name}, object{"Node", h.Node})
	pods, podProblems := r.podsOf(h)
	h.Pods, h.Problems = pods, r.problems(i, node, h)
	worstFirst(h.Problems)
	r.setState(&h, i, node)
	h.Problems = append(h.Problems, podProblems...)
	worstFirst(h.Problems)
	return h
}

// nodeOf returns the Node of an instance; nil if there is none.
func (r *reader) nodeOf(i *v1alpha1.WindowsInstance) *corev1.Node {
	if i.Status.NodeConflict != nil {
		return nil // it belongs to another machine
	}
	if i.Status.NodeRef != nil {
		return r.nodes[i.Status.NodeRef.Name]
	}
	return r.nodes[i.Status.Hostname]
}

// overlaySubnet is OVN-Kubernetes' annotation with the pod range of a Windows node. With other networks, the Node's spec has the range.
const overlaySubnet = "k8s.ovn.org/hybrid-overlay-node-subnet"

func podNetworks(node *corev1.Node) (ranges []string) {
	if subnet := label(node.Annotations[overlaySubnet]); subnet != "" {
		return []string{subnet}
	}
	for _, r := range node.Spec.PodCIDRs[:min(len(node.Spec.PodCIDRs), 2)] { // one of IPv4, one of IPv6
		ranges = append(ranges, label(r))
	}
	return ranges
}

// setState sets the state of a host in one word, and the cause.
func (r *reader) setState(h *Host, i *v1alpha1.WindowsInstance, node *corev1.Node) {
	ready := conditionOf(i, api.ConditionReady)
	h.Reason, h.Message, h.Since = cmp.Or(label(ready.Reason), "Unknown"), text(ready.Message), ready.LastTransitionTime.Time
	a := r.advice.For(ready.Reason)
	h.Severity, h.Next, h.Docs = a.Severity, withHost(a.Remedy, h.Name), a.URL()
	if ready.Type == "" {
		h.Severity, h.Next, h.Docs, h.Since = advice.Info, "Wait; if this persists, check whether the operator is running.", "", i.CreationTimestamp.Time
		h.Message = "the operator has not reported on this host yet"
	}
	// A problem that is more urgent than the Ready condition is the cause, not a consequence.
	if len(h.Problems) > 0 && h.Problems[0].Severity.Compare(h.Severity) < 0 {
		p := h.Problems[0]
		h.Reason, h.Message, h.Since, h.Severity, h.Next, h.Docs = p.Reason, p.Message, p.Since, p.Severity, p.Remedy, p.Docs
	}
	h.State = stateOf(h, i, node, ready)
}

func stateOf(h *Host, i *v1alpha1.WindowsInstance, node *corev1.Node, ready metav1.Condition) State {
	works := ready.Status == metav1.ConditionTrue && node != nil && nodestate.IsReady(node)
	switch {
	case i.DeletionTimestamp != nil:
		return Leaving
	case i.Status.Maintenance != nil:
		return Maintenance
	case ready.Type == "":
		return Pending
	case works && h.Severity.Compare(advice.Warning) <= 0:
		return Degraded
	case works:
		return Ready
	case h.Severity == advice.Error:
		return Failed
	case ready.Reason == api.ReasonPaused || ready.Reason == api.ReasonWaitingForSlot:
		return Waiting
	case i.Status.NodeRef == nil || conditionOf(i, api.ConditionConfigured).Status != metav1.ConditionTrue:
		return Joining
	}
	return NotReady
}

// conditionOf returns a condition of an instance; the zero value if it has none of this type.
func conditionOf(i *v1alpha1.WindowsInstance, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(i.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func (r *reader) planOf(p *v1alpha1.Plan) *Plan {
	if p == nil {
		return nil
	}
	plan := &Plan{Action: label(string(p.Action)), Disruption: label(string(p.Disruption)), WaitsFor: label(p.WaitsFor), Message: text(p.Message)}
	if p.WaitsFor != "" {
		plan.Remedy = r.advice.For(p.WaitsFor).Remedy
	}
	return plan
}

func actionOf(m *v1alpha1.Maintenance) *Action {
	if m == nil {
		return nil
	}
	return &Action{
		Action: label(string(m.Action)), Step: label(string(m.Step)), Disruption: label(string(m.Disruption)), Version: label(m.Version),
		StartedAt: m.StartedAt.Time, StepStartedAt: m.StepStartedAt.Time, Message: text(m.Message),
	}
}

func failureOf(f *v1alpha1.Failure) *Failure {
	if f == nil {
		return nil
	}
	return &Failure{
		Action: label(string(f.Action)), Step: label(string(f.Step)), Version: label(f.Version), Attempts: int(f.Attempts), At: f.At.Time, Message: text(f.Message),
	}
}

func (r *reader) steps(all []v1alpha1.StepStatus) (steps []Step) {
	for _, s := range all {
		step := Step{Name: label(s.Name), State: label(string(s.State)), Message: text(s.Message)}
		if s.StartedAt != nil {
			end := r.Now
			if s.FinishedAt != nil {
				end = s.FinishedAt.Time
			}
			step.StartedAt, step.Seconds = s.StartedAt.Time, max(0, end.Sub(s.StartedAt.Time).Seconds())
		}
		steps = append(steps, step)
	}
	return steps
}

func (r *reader) versions(i *v1alpha1.WindowsInstance, node *corev1.Node) Versions {
	p := i.Status.Payload
	v := Versions{Windows: label(i.Status.OSBuild), Payload: label(p.Current), PayloadDesired: label(p.Desired), PayloadStaged: label(p.Staged)}
	if node == nil {
		return v
	}
	info := node.Status.NodeInfo
	v.OSImage, v.Kubelet, v.Runtime = label(info.OSImage), label(info.KubeletVersion), label(info.ContainerRuntimeVersion)
	v.Node, v.Desired = label(node.Annotations[api.AnnotationVersion]), label(node.Annotations[api.AnnotationDesiredVersion])
	v.Settings = label(node.Annotations[api.AnnotationSettings])
	v.SettingsCurrent = r.Config == nil || r.Config.Status.Settings == "" || v.Settings == label(r.Config.Status.Settings)
	return v
}

// conditionsOf returns the conditions of an instance and of its Node.
func conditionsOf(i *v1alpha1.WindowsInstance, node *corev1.Node) (all []Condition) {
	for _, c := range i.Status.Conditions {
		all = append(all, Condition{
			Object: "WindowsInstance", Type: label(c.Type), Status: label(string(c.Status)), Good: isGood(c.Type, string(c.Status), badInstance()),
			Reason: label(c.Reason), Message: text(c.Message), Since: c.LastTransitionTime.Time,
		})
	}
	if node == nil {
		return all
	}
	for _, c := range node.Status.Conditions[:min(len(node.Status.Conditions), 64)] {
		all = append(all, Condition{
			Object: "Node", Type: label(string(c.Type)), Status: label(string(c.Status)), Good: isGood(string(c.Type), string(c.Status), badNode()),
			Reason: label(c.Reason), Message: text(c.Message), Since: c.LastTransitionTime.Time,
		})
	}
	return all
}

// badInstance returns the conditions of instances that are bad when True; badNode returns those of Nodes.
func badInstance() []string {
	return []string{api.ConditionStalled, api.ConditionRebootRequired, api.ConditionDraining, api.ConditionWindowsUnsupported}
}

func badNode() []string {
	return []string{
		api.ConditionNodeRebootRequired, api.ConditionWindowsNetworkUnavailable, api.ConditionHostComputeUnavailable, api.ConditionCommitPressure,
		api.ConditionClockSkewed, api.ConditionDefenderInterference, api.ConditionWindowsUpdateNeeded, api.ConditionUpdatesOverdue, api.ConditionAddressesHidden,
		api.ConditionKubeletSettingsHeld, api.ConditionNetworkPoliciesNotApplied, api.ConditionImagesMissing,
		string(corev1.NodeDiskPressure), string(corev1.NodeMemoryPressure), string(corev1.NodePIDPressure), string(corev1.NodeNetworkUnavailable),
	}
}

func isGood(kind, status string, badWhenTrue []string) bool {
	if slices.Contains(badWhenTrue, kind) {
		return status == "False"
	}
	return status == "True"
}
