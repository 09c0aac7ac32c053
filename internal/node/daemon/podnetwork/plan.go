package podnetwork

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/node/overlaystatus"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// networkView is the state that one pass has read.
type networkView struct {
	now time.Time
	// state is empty if the read failed with err.
	state hns.State
	err   error
	// cluster is the view of the cluster's Services; nil until they were listed.
	cluster *frontends
	// pods are running pods whose address no endpoint has, as libcni cached them.
	pods []podNetwork
	// proxy is the process of kube-proxy; 0 if it does not run.
	proxy uint32
	// creator is why the service that creates the network does not work, by its own report.
	creator []overlaystatus.Problem
	// ports are Windows' port ranges; empty until they were read.
	ports hostapi.Ports
	// evidence has the results of the queries of the same pass; nil if there were none.
	evidence *evidence
	// objects is an object read; nil if there was none.
	objects *objectView
	// service is the process of the Host Network Service; 0 if unknown. restarted means that a notification reported its stop or start.
	service   uint32
	restarted bool
}

// podNetwork is the network of a pod's sandbox.
type podNetwork struct {
	sandbox string
	address netip.Addr
}

// networkPlan has the changes to make to the network, and what the Node reports.
type networkPlan struct {
	// values are those of the network's files; nil until the network is usable.
	values *desired.NetworkValues
	// create is the host's own endpoint, if it is missing; values is valid once it was created.
	create *hns.Endpoint
	// remove has the orphaned objects.
	remove hns.State
	// restart has services, with the reason.
	restart map[string]string
	// end has pods without a network. Their sandboxes are ended so that the kubelet re-creates them.
	end []podNetwork
	// problems are for condition WindowsNetworkUnavailable.
	problems []networkProblem
	// notices are for the condition's reason and message while the network itself works, the most important first.
	notices []networkProblem
	// limits come before the notices.
	limits []networkProblem
	// query has queries whose results decide about a repair.
	query queries
	// again is the time until the next pass; zero means the default.
	again time.Duration
	// unlisted are events that the transition table does not list: programming errors.
	unlisted []error
}

// networkSoon is the time until the next pass if something seems wrong.
const networkSoon = 2 * time.Second

// namedLosses is how many losses a message names.
const namedLosses = 5

type networkProblem struct{ reason, message string }

func (p *networkPlan) problem(reason, format string, args ...any) {
	p.problems = append(p.problems, networkProblem{reason, fmt.Sprintf(format, args...)})
}

// soon schedules the next pass early, because something seems wrong.
func (p *networkPlan) soon() { p.again = networkSoon }

// notice adds a finding that is not a fault of this node's network.
func (p *networkPlan) notice(reason, format string, args ...any) {
	p.notices = append(p.notices, networkProblem{reason, fmt.Sprintf(format, args...)})
}

// message returns the condition's reason and message; isFault is false if the network itself works.
func (p networkPlan) message() (reason, message string, isFault bool) {
	reported := p.problems
	if len(reported) == 0 {
		reported = slices.Concat(p.limits, p.notices)
	}
	if len(reported) == 0 {
		return "", "", false
	}
	var all []string
	for _, t := range reported {
		all = append(all, t.message)
	}
	return reported[0].reason, truncate.Text(strings.Join(all, "; "), truncate.Note), len(p.problems) > 0
}

// evaluation is a view and the plan made from it.
type evaluation struct {
	networkView
	want  desired.Network
	table transitions
	plan  networkPlan
	// onHost are the endpoints of the network.
	onHost kubeproxy.Presence
	// isSteady is true once the Host Network Service has responded for a while, with the same network.
	isSteady  bool
	agreement *agreement
}

// repairs reports whether losses have to be repaired.
func (j *evaluation) repairs() bool { return j.want.Repairs() }

// move changes a phase. An unlisted event leaves it as it is.
func (j *evaluation) move(current *phase, e event) transition {
	t, err := j.table.after(*current, e)
	if err != nil {
		j.plan.unlisted = append(j.plan.unlisted, err)
	}
	*current = t.next
	return t
}
