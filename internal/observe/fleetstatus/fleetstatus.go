// Package fleetstatus evaluates a cluster's objects about its Windows hosts: the state of each host, the cause, what it waits for, and what to
// do next. It does no I/O. Its result, a Fleet, is what kubectl windows prints and its dashboard shows; docs/kubectl-windows.md documents its
// JSON form.
//
// It does not trust what a host or a Node reports: every text is limited in length and safe to print on a terminal.
package fleetstatus

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Version is the version of a Fleet's JSON form. It changes when a field is removed or changes its meaning.
const Version = "v1alpha1"

// Input is the data that was read from a cluster.
type Input struct {
	// Now is the time of the read.
	Now time.Time
	// Namespace is the operator's namespace.
	Namespace string
	// Config is WindowsConfig cluster; nil if there is none.
	Config *v1alpha1.WindowsConfig
	// Instances are the WindowsInstances of the namespace.
	Instances []v1alpha1.WindowsInstance
	// Nodes are the Windows nodes.
	Nodes []corev1.Node
	// Operator is the operator's Deployment; nil if there is none, or if it could not be read.
	Operator *appsv1.Deployment
	// Events are those of the instances, of their Nodes, and of other objects in the namespace: all, or warnings only.
	Events []corev1.Event
	// Pods are all pods of the Windows nodes, or those that do not run. Pods of other nodes are ignored.
	Pods []corev1.Pod
	// Unread lists the objects that could not be read. Their information is missing.
	Unread []Unread
}

// Unread is a kind of object that could not be read, or of which only a part was read.
type Unread struct {
	// What names the objects, as in "nodes".
	What string `json:"what"`
	// Why is the API server's error, the missing permission, or how many were read.
	Why string `json:"why"`
}

// Fleet is the state of all Windows hosts at one time.
type Fleet struct {
	// Version is the version of this form.
	Version string `json:"version"`
	// At is when the objects were read.
	At time.Time `json:"at"`
	// Namespace is the operator's namespace.
	Namespace string `json:"namespace"`
	// Operator is the program in the cluster.
	Operator Operator `json:"operator"`
	// Counts are the numbers of hosts.
	Counts Counts `json:"counts"`
	// Rollout is the progress towards the desired version.
	Rollout Rollout `json:"rollout"`
	// Settings are the published settings of nodes.
	Settings Settings `json:"settings"`
	// Policies are the NetworkPolicies of pods on Windows nodes; nil while nodes ignore them.
	Policies *Policies `json:"policies,omitempty"`
	// Problems of all hosts and of the operator; the most urgent comes first. A problem that several hosts have is listed once.
	Problems []Problem `json:"problems"`
	// Hosts by name.
	Hosts []Host `json:"hosts"`
	// Orphans are Windows nodes without a WindowsInstance.
	Orphans []string `json:"orphans,omitempty"`
	// Unread lists objects that could not be read; the fields above may be incomplete.
	Unread []Unread `json:"unread,omitempty"`
}

// Counts are the numbers of hosts, in total and by state.
type Counts struct {
	// Total is the number of WindowsInstances.
	Total int `json:"total"`
	// States are the numbers of hosts in each state that occurs.
	States map[State]int `json:"states"`
}

// Settings describe how many nodes have the published settings.
type Settings struct {
	// Published identifies the settings that nodes must have.
	Published string `json:"published,omitempty"`
	// Nodes is the number of nodes to which they apply, Updated the number of nodes that have applied them.
	Nodes   int `json:"nodes"`
	Updated int `json:"updated"`
}

// Policies describe whether nodes apply NetworkPolicies as they are written.
type Policies struct {
	// Mode is spec.network.policies of WindowsConfig: Enforce or Report.
	Mode v1alpha1.NetworkPolicies `json:"mode"`
	// NotApplied is the number of nodes that report policies that they cannot apply as written. With Report, nodes only compute what they
	// would apply.
	NotApplied int `json:"notApplied"`
}

// Problem is a problem with its remedy.
type Problem struct {
	// Severity is error, warning or info.
	Severity advice.Severity `json:"severity"`
	// Reason is a code for programs, of a condition or an event.
	Reason string `json:"reason"`
	// Object is the object that reports it, as in "Node win-1".
	Object string `json:"object"`
	// Hosts are the names of the affected WindowsInstances; empty for a problem of the operator or the cluster.
	Hosts []string `json:"hosts,omitempty"`
	// Message is the reported message; with several hosts, that of the first.
	Message string `json:"message"`
	// Since is when it began, if known.
	Since time.Time `json:"since,omitzero"`
	// Remedy is what to do next; Docs is the address of the documentation.
	Remedy string `json:"remedy,omitempty"`
	Docs   string `json:"docs,omitempty"`
}

// Of evaluates the objects.
func Of(in Input) Fleet {
	r := reader{Input: in, advice: advice.All(), nodes: map[string]*corev1.Node{}}
	r.index()
	f := Fleet{
		Version: Version, At: in.Now, Namespace: in.Namespace, Unread: in.Unread,
		Hosts: []Host{}, Problems: []Problem{}, Counts: Counts{Total: len(in.Instances), States: map[State]int{}},
	}
	problems := r.operator(&f)
	problems = append(problems, r.config(&f)...)
	for i := range in.Instances {
		h := r.host(&in.Instances[i])
		f.Hosts = append(f.Hosts, h)
		f.Counts.States[h.State]++
		problems = append(problems, h.Problems...)
	}
	slices.SortFunc(f.Hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	problems = append(problems, r.otherEvents()...)
	var orphaned []Problem
	f.Orphans, orphaned = r.orphans()
	f.Problems = r.grouped(append(problems, orphaned...))
	f.Rollout = r.rollout(f.Hosts)
	return f
}

// Find returns the host with this name, node name or address.
func (f Fleet) Find(host string) (Host, bool) {
	if host == "" {
		return Host{}, false
	}
	for _, matches := range []func(Host) bool{
		func(h Host) bool { return h.Name == host },
		func(h Host) bool { return h.Node == host || h.Hostname == strings.ToLower(host) },
		func(h Host) bool { return strings.EqualFold(h.Address, host) || h.NodeIP == host },
	} {
		if i := slices.IndexFunc(f.Hosts, matches); i >= 0 {
			return f.Hosts[i], true
		}
	}
	return Host{}, false
}

type reader struct {
	Input
	advice advice.Table
	nodes  map[string]*corev1.Node
	pods   map[string][]*corev1.Pod   // by node name
	events map[object][]*corev1.Event // by the object they are about
	masker *mask.Masker               // nil until a pod does not run
}

type object struct{ kind, name string }

func (r *reader) index() {
	r.pods, r.events = map[string][]*corev1.Pod{}, map[object][]*corev1.Event{}
	for i := range r.Nodes {
		r.nodes[r.Nodes[i].Name] = &r.Nodes[i]
	}
	for i := range r.Pods {
		if node := r.Pods[i].Spec.NodeName; r.nodes[node] != nil {
			r.pods[node] = append(r.pods[node], &r.Pods[i])
		}
	}
	for i := range r.Events {
		about := r.Events[i].InvolvedObject
		of := object{about.Kind, about.Name}
		r.events[of] = append(r.events[of], &r.Events[i])
	}
}

func (r *reader) problem(reason, object, message string, since time.Time) Problem {
	a := r.advice.For(reason)
	return Problem{
		Severity: a.Severity, Reason: label(reason), Object: object, Message: text(message), Since: since, Remedy: a.Remedy, Docs: a.URL(),
	}
}

func withHost(remedy, host string) string { return strings.ReplaceAll(remedy, "<host>", host) }

// text returns a message that is safe to print; label a short name.
func text(s string) string  { return truncate.Printable(strings.TrimSpace(s), truncate.Reported) }
func label(s string) string { return truncate.Printable(strings.TrimSpace(s), 253) }

// worstFirst sorts problems by severity and otherwise keeps their order.
func worstFirst(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Severity.Compare(b.Severity) })
}

// grouped merges the same problem of several hosts. Informational problems are omitted: the rollout and the hosts have them.
func (r *reader) grouped(problems []Problem) []Problem {
	groups, index := []Problem{}, map[string]int{}
	for _, p := range problems {
		if p.Severity.Compare(advice.Warning) > 0 {
			continue
		}
		kind, _, _ := strings.Cut(p.Object, " ")
		key := kind + " " + p.Reason
		i, known := index[key]
		if !known || len(p.Hosts) == 0 {
			index[key] = len(groups)
			groups = append(groups, p)
			continue
		}
		g := &groups[i]
		for _, h := range p.Hosts {
			if !slices.Contains(g.Hosts, h) {
				g.Hosts, g.Remedy = append(g.Hosts, h), r.advice.For(p.Reason).Remedy
			}
		}
		if !p.Since.IsZero() && (g.Since.IsZero() || p.Since.Before(g.Since)) {
			g.Since = p.Since
		}
	}
	for i := range groups {
		groups[i].Hosts = slices.Sorted(slices.Values(groups[i].Hosts))
	}
	worstFirst(groups)
	return groups
}

func sourceOf(i *v1alpha1.WindowsInstance) string {
	return cmp.Or(label(i.Labels[api.LabelSource]), api.SourceUser)
}
