// Package generations assesses which workloads of Windows nodes can move to a newer build of Windows, what keeps the others on their build, and in
// which order hosts can be replaced. It does no I/O. Which hosts run which images is the rule of windowsbuild.Runs.
package generations

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Cluster holds the objects that an assessment needs.
type Cluster struct {
	// Nodes are the Windows nodes.
	Nodes []corev1.Node
	// Pods are those that Relevant accepts.
	Pods []corev1.Pod
	// Objects have pod templates.
	Objects []Object
	// Classes are the RuntimeClasses by name; nil if they could not be read.
	Classes map[string]*nodev1.RuntimeClass
}

// Verdict is whether hosts with a build run an image, or all images of a workload.
type Verdict string

// Verdicts. A build that the registry does not list is NoEntry, even if the image ran there before: its tag has moved.
const (
	Runs    Verdict = "Runs"
	NoEntry Verdict = "NoEntry"
	Unknown Verdict = "Unknown"
)

// State is whether a workload can move to hosts with the target build.
type State string

// States of workloads.
const (
	// Movable means that hosts with the target build run the images, and that the pods may be scheduled to them.
	Movable State = "Movable"
	// Pinned means that they run the images, as far as these could be read, and that no such host may get the pods.
	Pinned State = "Pinned"
	// ImageMissing means that an image has no entry for the target build.
	ImageMissing State = "ImageMissing"
	// Undetermined means that an image or a RuntimeClass could not be read.
	Undetermined State = "Undetermined"
)

// Report is the result for all workloads and hosts.
type Report struct {
	Target Generation `json:"target"`
	// Builds are those of the nodes, oldest first.
	Builds []Generation `json:"builds"`
	// Requirements are what Windows on new hosts needs.
	Requirements []string     `json:"requirements,omitempty"`
	Workloads    []Assessment `json:"workloads"`
	// Hosts are the nodes with builds older than the target, in the order in which they can be replaced.
	Hosts []Host `json:"hosts"`
	// UnknownBuilds are the nodes whose kubelet reports no valid version of Windows. They are not assessed.
	UnknownBuilds []string `json:"unknownBuilds,omitempty"`
}

// Generation is a build of Windows, such as 10.0.20348.
type Generation struct {
	Build string `json:"build"`
	Name  string `json:"name,omitempty"`
	// SupportedUntil is the last day with security updates, such as 2031-10-14.
	SupportedUntil string `json:"supportedUntil,omitempty"`
	Nodes          int    `json:"nodes"`

	build windowsbuild.Build
}

// Short returns the year of the release, or the build if it is none of the known releases.
func (g Generation) Short() string {
	if r, known := windowsbuild.ReleaseOf(g.build); known {
		return r.Version
	}
	return g.Build
}

// Assessment is the result for a workload.
type Assessment struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// ManagedBy is the object of another kind that manages the workload, as in "Rollout web".
	ManagedBy string `json:"managedBy,omitempty"`
	State     State  `json:"state"`
	// Builds has a verdict for each build of the nodes and for the target, such as 10.0.20348.
	Builds map[string]Verdict `json:"builds"`
	Images []Image            `json:"images"`
	// Pins are what binds the workload to another build than the target. They are also listed if an image is missing.
	Pins []Pin `json:"pins,omitempty"`
	// Next are the steps to take, in order.
	Next []string `json:"next,omitempty"`
	// Pods is the number of pods that run or wait, Nodes the Windows nodes with such pods.
	Pods  int      `json:"pods"`
	Nodes []string `json:"nodes,omitempty"`
}

// ID returns kind, namespace and name, as in "Deployment shop/web".
func (a Assessment) ID() string { return a.Kind + " " + a.Namespace + "/" + a.Name }

// Image is the result for an image of a workload.
type Image struct {
	Image string `json:"image"`
	// For lists the builds of its entries according to its registry; "any" is an entry without a build.
	For []string `json:"for,omitempty"`
	// Builds has a verdict for each build of the nodes and for the target.
	Builds map[string]Verdict `json:"builds"`
	// Proof is where the image ran, if its registry was not read.
	Proof string `json:"proof,omitempty"`
	// Unread is why its registry was not read.
	Unread string `json:"unread,omitempty"`
}

// Pin is a setting that binds a workload to some hosts.
type Pin struct {
	// By is the kind of setting.
	By PinKind `json:"by"`
	// Value is the name of a RuntimeClass, a requirement such as node.kubernetes.io/windows-build=10.0.20348, an image, or the name of a node; empty
	// for NoController.
	Value string `json:"value,omitempty"`
}

// PinKind is a kind of setting that binds a workload.
type PinKind string

// Kinds of pins.
const (
	PinRuntimeClass PinKind = "RuntimeClass"
	PinNodeSelector PinKind = "NodeSelector"
	PinAffinity     PinKind = "Affinity"
	PinNodeName     PinKind = "NodeName"
	// PinDigest means that an image is named by the digest of an entry for another build.
	PinDigest PinKind = "Digest"
	// PinNoController means that no controller creates the pod again elsewhere.
	PinNoController PinKind = "NoController"
)

// assessor is one assessment in progress.
type assessor struct {
	cluster Cluster
	target  windowsbuild.Build
	builds  []windowsbuild.Build // of the nodes, and the target; sorted
	read    Readings
	proofs  proofs
	// hosts are nodes with the target build: the existing ones, and those that the others become when they are replaced.
	hosts []*corev1.Node
}

// Assess assesses workloads, as returned by Workloads, for a target build. ends are the last days of security updates; it may be empty.
func Assess(c Cluster, target windowsbuild.Build, workloads []*Workload, read Readings, ends map[windowsbuild.Build]time.Time) Report {
	a := assessor{cluster: c, target: target, read: read, proofs: proofsOf(c)}
	nodes := map[windowsbuild.Build]int{target: 0}
	report := Report{Builds: []Generation{}, Workloads: []Assessment{}, Hosts: []Host{}, Requirements: requirementsOf(target)}
	for i := range c.Nodes {
		b := nodestate.WindowsBuild(&c.Nodes[i])
		if b == 0 {
			report.UnknownBuilds = append(report.UnknownBuilds, c.Nodes[i].Name)
			continue
		}
		nodes[b]++
	}
	for b, n := range nodes {
		a.builds = append(a.builds, b)
		g := Generation{Build: b.Label(), Nodes: n, build: b}
		if r, known := windowsbuild.ReleaseOf(b); known {
			g.Name = r.Name
		}
		if end, known := ends[b]; known {
			g.SupportedUntil = end.Format(time.DateOnly)
		}
		if n > 0 {
			report.Builds = append(report.Builds, g)
		}
		if b == target {
			report.Target = g
		}
	}
	slices.Sort(a.builds)
	slices.SortFunc(report.Builds, func(x, y Generation) int { return cmp.Compare(x.build, y.build) })
	slices.Sort(report.UnknownBuilds)
	a.hosts = hostsWith(target, c.Nodes)
	for _, w := range workloads {
		report.Workloads = append(report.Workloads, a.assess(w))
	}
	report.Hosts = a.order(workloads, report.Workloads)
	return report
}

// assess returns the result for one workload.
func (a *assessor) assess(w *Workload) Assessment {
	out := Assessment{
		Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, ManagedBy: w.ManagedBy, Images: []Image{}, Builds: map[string]Verdict{}, Pods: len(w.Pods),
	}
	for _, p := range w.Pods {
		if p.Spec.NodeName != "" && !slices.Contains(out.Nodes, p.Spec.NodeName) {
			out.Nodes = append(out.Nodes, p.Spec.NodeName)
		}
	}
	slices.Sort(out.Nodes)
	for _, b := range a.builds {
		out.Builds[b.Label()] = Runs
	}
	for _, image := range w.Images() {
		current := a.image(w, image)
		out.Images = append(out.Images, current)
		for b, v := range current.Builds {
			out.Builds[b] = worse(out.Builds[b], v)
		}
	}
	d := demandsOf(w, a.cluster.Classes)
	out.Pins = a.pins(w, d, out)
	switch v := out.Builds[a.target.Label()]; {
	case v == NoEntry:
		out.State = ImageMissing
	case len(out.Pins) > 0:
		out.State = Pinned
	case v == Unknown || d.unknown != "":
		out.State = Undetermined
	default:
		out.State = Movable
	}
	out.Next = a.next(w, d, out)
	return out
}

func worse(x, y Verdict) Verdict {
	for _, v := range []Verdict{NoEntry, Unknown} {
		if x == v || y == v {
			return v
		}
	}
	return Runs
}

// requirementsOf returns what Windows on new hosts needs: the revisions below which something does not work.
func requirementsOf(target windowsbuild.Build) (all []string) {
	for _, u := range windowsbuild.Updates() {
		if u.Build == target && !u.Optional {
			all = append(all, fmt.Sprintf("revision %d or later (%s), for %s", u.Revision, u.KB, u.For))
		}
	}
	for _, f := range windowsbuild.Faults() {
		if f.Build == target {
			all = append(all, fmt.Sprintf("revision %d or later (%s), because with earlier ones %s", f.Before, f.Fixed, f.What))
		}
	}
	return all
}
