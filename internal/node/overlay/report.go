package overlay

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/overlaystatus"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// waitReportedAfter is when waiting for others becomes a problem: a host that joins waits for seconds.
	waitReportedAfter = time.Minute
	// refusalReportedAfter is when a refusal becomes a problem: annotations of Nodes change one after another.
	refusalReportedAfter = 30 * time.Second
	// fewSubjects is how many Nodes a message names.
	fewSubjects = 3
	// subjectText limits the text about one Node.
	subjectText = 240
)

// problem is why the overlay does not work. There can be several with one reason, for different Nodes.
type problem struct{ node, message string }

// reporter publishes lasting problems in the log and in the status file.
type reporter struct {
	// file is the name of the status file; empty if there is none.
	file string
	log  *slog.Logger
	// changed receives a message when found has changed.
	changed chan struct{}
	// lastError is the last error of writing the file that was logged.
	lastError string

	mu sync.Mutex
	// found contains all problems by reason, with the time at which each was found.
	found map[string][]foundProblem
}

type foundProblem struct {
	problem
	since time.Time
}

func newReporter(file string, log *slog.Logger) *reporter {
	return &reporter{file: file, log: log, changed: make(chan struct{}, 1), found: map[string][]foundProblem{}}
}

// set replaces the problems of one reason. A problem of the same Node keeps its age, even with another message.
func (r *reporter) set(reason string, problems ...problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := map[string]time.Time{}
	for _, f := range r.found[reason] {
		since[f.node] = f.since
	}
	var found []foundProblem
	for _, p := range problems {
		at, known := since[p.node]
		if !known {
			at = time.Now()
		}
		found = append(found, foundProblem{p, at})
	}
	if !slices.Equal(found, r.found[reason]) {
		r.found[reason] = found
		wake(r.changed)
	}
}

// due returns the lasting problems in the form in which they are published, and when to check again; never if that is 0.
func (r *reporter) due(now time.Time) (s overlaystatus.Status, again time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Problems = []overlaystatus.Problem{}
	for _, reason := range reasons() {
		var lasting []problem
		for _, f := range r.found[reason] {
			left := f.since.Add(lastsFor(reason)).Sub(now)
			switch {
			case left <= 0:
				lasting = append(lasting, f.problem)
			case again == 0 || left < again:
				again = left
			}
		}
		if len(lasting) > 0 {
			s.Problems = append(s.Problems, overlaystatus.Problem{Reason: reason, Message: combine(lasting)})
		}
	}
	return s, again
}

// reasons returns all reasons, the most important first.
func reasons() []string {
	return []string{
		api.ReasonHostAddressLost, api.ReasonHostNetworkChanged,
		api.ReasonOverlayCertificatePending, api.ReasonOverlayNodeTreatedAsLinux, api.ReasonOverlaySubnetMissing, api.ReasonOverlaySubnetRefused,
		api.ReasonOverlayAnnotationDenied, api.ReasonOverlayAdapterUnexpected, api.ReasonOverlayNetworkUnexpected, api.ReasonOverlayHostRouteRefused,
		api.ReasonOverlayLinuxNodesMissing,
		api.ReasonOverlayNeighborRefused,
	}
}

func lastsFor(reason string) time.Duration {
	switch reason {
	case api.ReasonHostAddressLost, api.ReasonHostNetworkChanged: // reported only after they have lasted
		return 0
	case api.ReasonOverlaySubnetRefused, api.ReasonOverlayAnnotationDenied, api.ReasonOverlayNeighborRefused:
		return refusalReportedAfter
	}
	return waitReportedAfter
}

// combine returns one message for the problems of one reason.
func combine(problems []problem) string {
	if problems[0].node == "" {
		return problems[0].message
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.node+" ("+truncate.Text(p.message, subjectText)+")")
	}
	return "this node has no route to the pods of " + truncate.List(texts, fewSubjects, ", ")
}

// run publishes the status whenever it changes, until ctx is done. Then it removes the file, whose content may no longer be true.
func (r *reporter) run(ctx context.Context) {
	published := overlaystatus.Status{}
	written := false
	for ctx.Err() == nil {
		status, again := r.due(time.Now())
		r.logChanges(published, status)
		if !written || !slices.Equal(published.Problems, status.Problems) {
			written = r.write(status)
		}
		published = status
		if !written {
			again = longestPause
		}
		timer := time.NewTimer(cmp.Or(again, time.Hour))
		select {
		case <-ctx.Done():
		case <-r.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	if r.file != "" {
		if err := os.Remove(r.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.log.Warn("Removing the status file failed", "file", r.file, "error", err.Error())
		}
	}
}

// logChanges logs each problem when it appears, changes or disappears.
func (r *reporter) logChanges(before, now overlaystatus.Status) {
	for _, p := range now.Problems {
		if !slices.Contains(before.Problems, p) {
			r.log.Warn("The overlay has a problem", "reason", p.Reason, "message", p.Message)
		}
	}
	for _, p := range before.Problems {
		if !slices.ContainsFunc(now.Problems, func(n overlaystatus.Problem) bool { return n.Reason == p.Reason }) {
			r.log.Info("A problem of the overlay is resolved", "reason", p.Reason)
		}
	}
}

// write replaces the status file.
func (r *reporter) write(s overlaystatus.Status) (written bool) {
	if r.file == "" {
		return true
	}
	err := writeFile(r.file, overlaystatus.Encode(s))
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != r.lastError {
		r.log.Warn("Writing the status file failed", "file", r.file, "error", text)
	}
	r.lastError = text
	return err == nil
}

// nodeProblems returns the problems that follow from the Nodes, for the reasons in nodeReasons.
func nodeProblems(own Node, all []Node, d decision) map[string][]problem {
	found := map[string][]problem{}
	add := func(reason, node, message string) {
		found[reason] = append(found[reason], problem{node, message})
	}
	switch {
	case d.own != nil:
		add(api.ReasonOverlaySubnetRefused, "", "other nodes have no route to the pods of this node: "+d.own.Error())
	case own.Subnet == "" && own.LinuxSubnets != "":
		add(api.ReasonOverlayNodeTreatedAsLinux, "", "OVN-Kubernetes treats this Windows node as Linux: the Node has annotation "+LinuxSubnetsAnnotation+" and no "+
			SubnetAnnotation+`; start OVN-Kubernetes with --no-hostsubnet-nodes="kubernetes.io/os=windows"`)
	case own.Subnet == "":
		add(api.ReasonOverlaySubnetMissing, "", "OVN-Kubernetes has not assigned a subnet to this node (annotation "+SubnetAnnotation+
			"): its cluster manager is not running, its hybrid overlay is disabled, or the range of the hybrid overlay is exhausted; see the log of ovnkube-control-plane")
	}
	if message := linuxProblem(own.Name, all); message != "" {
		add(api.ReasonOverlayLinuxNodesMissing, "", message)
	}
	for _, n := range d.refused {
		add(api.ReasonOverlayNeighborRefused, n.node, n.err.Error())
	}
	return found
}

// nodeReasons returns the reasons of problems that follow from the Nodes.
func nodeReasons() []string {
	return []string{
		api.ReasonOverlayNodeTreatedAsLinux, api.ReasonOverlaySubnetMissing, api.ReasonOverlaySubnetRefused,
		api.ReasonOverlayLinuxNodesMissing, api.ReasonOverlayNeighborRefused,
	}
}

// linuxProblem returns a message if no Linux node of OVN-Kubernetes is part of the overlay.
func linuxProblem(own string, all []Node) string {
	var without []string
	for _, n := range all {
		switch {
		case n.Windows || n.Name == own || n.LinuxSubnets == "":
		case n.RouterMAC != "":
			return ""
		default:
			without = append(without, n.Name)
		}
	}
	if len(without) == 0 {
		return ""
	}
	slices.Sort(without)
	return "no Linux node is part of the hybrid overlay: annotation " + RouterMACAnnotation + " is missing on " + truncate.List(without, fewSubjects, ", ") +
		"; start OVN-Kubernetes on Linux nodes with --enable-hybrid-overlay"
}

// setNodes replaces all problems that follow from the Nodes.
func (r *reporter) setNodes(found map[string][]problem) {
	for _, reason := range nodeReasons() {
		r.set(reason, found[reason]...)
	}
}

// setNetworks replaces the problem of networks that are not as requested; none if there are none.
func (r *reporter) setNetworks(unexpected []string) {
	if len(unexpected) == 0 {
		r.set(api.ReasonOverlayNetworkUnexpected)
		return
	}
	r.setOne(api.ReasonOverlayNetworkUnexpected, "networks are not as requested: "+strings.Join(unexpected, ", ")+": pods of this node may be unable to reach other pods; "+
		"delete the network on the host (Remove-HnsNetwork), and it is created again")
}

// setHost replaces the problems of the host's own network; none for empty messages.
func (r *reporter) setHost(lost, changed string) {
	r.setOne(api.ReasonHostAddressLost, lost)
	r.setOne(api.ReasonHostNetworkChanged, changed)
}

// setOne replaces the problem of a reason that does not concern other Nodes; none if the message is empty.
func (r *reporter) setOne(reason, message string) {
	if message == "" {
		r.set(reason)
		return
	}
	r.set(reason, problem{message: strings.TrimSpace(message)})
}
