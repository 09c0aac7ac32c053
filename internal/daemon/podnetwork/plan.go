package podnetwork

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/overlaystatus"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// networkView is what one look at the network has shown.
type networkView struct {
	now time.Time
	// state is empty when the look failed with err.
	state hns.State
	err   error
	// told tells what the cluster says of Services; nil as long as it has not.
	told *frontends
	// pods are the networks of pods that plugins made, as they remember them.
	pods []podNetwork
	// proxy is the process of kube-proxy; 0 when it does not run.
	proxy uint32
	// maker is why the service that makes the network says that it does not work.
	maker []overlaystatus.Problem
	// ports are those of Windows; empty as long as it has not told them.
	ports host.Ports
	// evidence are the API server's answers to the questions of the same look; nil if it was not asked.
	evidence *evidence
	// close is a close look at Windows' objects; nil if there was none.
	close *closeView
	// service is the process of the Host Network Service; 0 when that is not known. restarted says that it was told to have stopped or started.
	service   uint32
	restarted bool
}

// podNetwork is the network of a pod: that of its sandbox.
type podNetwork struct {
	sandbox string
	address netip.Addr
}

// networkPlan is what is to be done about the network, and what the Node is told of it.
type networkPlan struct {
	// joint is what the host knows of the network; nil as long as it cannot be used.
	joint *desired.Joint
	// create is the host's own endpoint, when it is not there; joint holds when it could be made.
	create *hns.Endpoint
	// remove is what belongs to nobody.
	remove hns.State
	// restart are services, with the reason.
	restart map[string]string
	// end are pods without a network, whose sandboxes are ended so that the kubelet makes them again.
	end []podNetwork
	// problems are for condition WindowsNetworkUnavailable.
	problems []networkProblem
	// notices are for the reason and the message of the condition while the network itself works, the most important first.
	notices []networkProblem
	// limits are told before them.
	limits []networkProblem
	// ask are questions to the API server whose answers decide about a repair.
	ask questions
	// again is when to look again; zero for the usual time.
	again time.Duration
	// unlisted are events that the table of transitions does not know: mistakes of ours.
	unlisted []error
}

// networkSoon is how soon the network is looked at again when something seems wrong.
const networkSoon = 2 * time.Second

// namedLosses is how many losses a message names.
const namedLosses = 5

type networkProblem struct{ reason, message string }

func (p *networkPlan) problem(reason, format string, args ...any) {
	p.problems = append(p.problems, networkProblem{reason, fmt.Sprintf(format, args...)})
}

// soon has the network looked at again before long: something seems to be wrong.
func (p *networkPlan) soon() { p.again = networkSoon }

// notice tells of something that is no fault of this node's network.
func (p *networkPlan) notice(reason, format string, args ...any) {
	p.notices = append(p.notices, networkProblem{reason, fmt.Sprintf(format, args...)})
}

// message is what a Node is told; isFault is false if the network itself works.
func (p networkPlan) message() (reason, message string, isFault bool) {
	told := p.problems
	if len(told) == 0 {
		told = slices.Concat(p.limits, p.notices)
	}
	if len(told) == 0 {
		return "", "", false
	}
	var all []string
	for _, t := range told {
		all = append(all, t.message)
	}
	return told[0].reason, shorten.Text(strings.Join(all, "; "), shorten.Note), len(p.problems) > 0
}

// judgement is one look on its way to a plan.
type judgement struct {
	networkView
	want  desired.Network
	table transitions
	plan  networkPlan
	// onHost are the endpoints of the network.
	onHost kubeproxy.Presence
	// isSteady is true when the Host Network Service has answered for a while, with the same network.
	isSteady  bool
	agreement *agreement
}

// repairs tells whether what was lost is to be made good.
func (j *judgement) repairs() bool { return j.want.Repairs() }

// move takes something to its next phase. An event that is not listed leaves it where it is.
func (j *judgement) move(is *phase, e event) transition {
	t, err := j.table.after(*is, e)
	if err != nil {
		j.plan.unlisted = append(j.plan.unlisted, err)
	}
	*is = t.next
	return t
}
