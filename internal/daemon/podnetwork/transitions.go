package podnetwork

import (
	"fmt"
	"maps"

	"github.com/windows-machine-config/wmco/api"
)

// phase is how far something of the network is.
type phase string

const (
	// hnsAnswers says that the Host Network Service answers, hnsAway that it did not and no network was found since.
	hnsAnswers phase = "the service answers"
	hnsAway    phase = "the service was away"

	// networkAwaited is not there since we look. It may be that the service that makes it waits for something.
	networkAwaited phase = "network awaited"
	networkPresent phase = "network present"
	// networkGone was there, and is not any more.
	networkGone phase = "network gone"
	// networkRestoring is not there, and the service that makes it was restarted for that.
	networkRestoring phase = "network restoring"

	// proxyStarting has not made all load balancers yet: for proxyStarts, what is missing is no loss.
	proxyStarting phase = "proxy starting"
	// proxyServing has made all of them once: what is missing was lost.
	proxyServing phase = "proxy serving"
	// proxyRestarting was asked to restart for what was lost; the process that had made all of them still runs.
	proxyRestarting phase = "proxy restarting"
	// proxyRepairing was restarted for what was lost, and has not made all of them yet.
	proxyRepairing phase = "proxy repairing"

	// A load balancer, the endpoint of a pod or the owner of an object is unseen until it was there. It is awaited when it is missing and
	// was not there before, as far as that counts, and lost when it was.
	unseen  phase = "unseen"
	seen    phase = "seen"
	awaited phase = "awaited"
	lost    phase = "lost"
	// abandoned is a load balancer for which kube-proxy was restarted. It is not restarted for the same loss again.
	abandoned phase = "abandoned"
)

// event is what a look shows, or what is done about it.
type event string

const (
	// lookFails and lookUnavailable are looks that show nothing; with the latter, the Host Network Service is not there.
	lookFails       event = "the look fails"
	lookUnavailable event = "the service is unavailable"
	// networkFound is the network that was there before, or the first one; networkReplaced is another one.
	networkFound    event = "network found"
	networkReplaced event = "network replaced"
	// networkMissing says that it is not there, networkOverdue that it was not for as long as its phase allows.
	networkMissing event = "network missing"
	networkOverdue event = "network overdue"

	// proxyReplaced says that another process runs than before, or none.
	proxyReplaced event = "proxy replaced"
	// proxyComplete says that no load balancer is missing, and none is of the process before.
	proxyComplete event = "proxy complete"
	// proxyRestartAsked says that kube-proxy is restarted for what was lost.
	proxyRestartAsked event = "proxy restart asked"

	there   event = "there"
	missing event = "missing"
	// overdue says that something was missing for as long as its phase allows.
	overdue event = "overdue"
	// undecided says that what is there is, or may be, of the process before. unneeded says that it need not be there, or has changed: what was seen
	// before tells nothing about what is missing afterwards.
	undecided event = "undecided"
	unneeded  event = "unneeded"
	// forgotten says that it does not count any more that it was there.
	forgotten event = "forgotten"
	// retried says that kube-proxy is restarted for it, doubted that the API server does not confirm that it must be there.
	retried event = "retried"
	doubted event = "doubted"
)

// action is what a transition has done.
type action string

const (
	none         action = ""
	restartMaker action = "restart the service that makes the network"
	// restartProxy restarts kube-proxy, which then makes everything again.
	restartProxy action = "restart kube-proxy"
)

// at is where a transition begins, and what happens there.
type at struct {
	phase phase
	event event
}

// transition is what follows: the next phase, what is done, and the reason for which the Node's condition becomes True.
type transition struct {
	next   phase
	do     action
	reason string
}

// transitions is a table. What it does not list cannot happen.
type transitions map[at]transition

// networkTransitions are all that is remembered of the network from look to look, but for times and counts.
func networkTransitions() transitions {
	const down, absent = api.ReasonHNSUnavailable, api.ReasonHNSNetworkMissing
	all := transitions{
		{hnsAnswers, lookFails}:       {hnsAnswers, none, down},
		{hnsAnswers, lookUnavailable}: {hnsAway, none, down},
		{hnsAnswers, networkFound}:    {hnsAnswers, none, ""},
		{hnsAway, lookFails}:          {hnsAway, none, down},
		{hnsAway, lookUnavailable}:    {hnsAway, none, down},
		{hnsAway, networkFound}:       {hnsAnswers, restartProxy, ""}, // it takes objects that it could not ask for to be gone (kubernetes#139519)

		{networkAwaited, networkMissing}:    {networkAwaited, none, absent},
		{networkAwaited, networkOverdue}:    {networkRestoring, restartMaker, absent},
		{networkAwaited, networkFound}:      {networkPresent, none, ""},
		{networkPresent, networkMissing}:    {networkGone, none, absent},
		{networkPresent, networkFound}:      {networkPresent, none, ""},
		{networkPresent, networkReplaced}:   {networkPresent, restartProxy, ""},
		{networkGone, networkMissing}:       {networkGone, none, absent},
		{networkGone, networkOverdue}:       {networkRestoring, restartMaker, absent},
		{networkGone, networkFound}:         {networkPresent, none, ""},
		{networkGone, networkReplaced}:      {networkPresent, restartProxy, ""},
		{networkRestoring, networkMissing}:  {networkRestoring, none, absent},
		{networkRestoring, networkOverdue}:  {networkRestoring, restartMaker, absent},
		{networkRestoring, networkFound}:    {networkPresent, none, ""},
		{networkRestoring, networkReplaced}: {networkPresent, restartProxy, ""},

		{proxyStarting, proxyReplaced}:       {proxyStarting, none, ""},
		{proxyStarting, proxyComplete}:       {proxyServing, none, ""},
		{proxyStarting, proxyRestartAsked}:   {proxyRepairing, none, ""},
		{proxyServing, proxyReplaced}:        {proxyStarting, none, ""},
		{proxyServing, proxyComplete}:        {proxyServing, none, ""},
		{proxyServing, proxyRestartAsked}:    {proxyRestarting, none, ""},
		{proxyRestarting, proxyReplaced}:     {proxyRepairing, none, ""},
		{proxyRestarting, proxyComplete}:     {proxyServing, none, ""},
		{proxyRestarting, proxyRestartAsked}: {proxyRestarting, none, ""},
		{proxyRepairing, proxyReplaced}:      {proxyRepairing, none, ""},
		{proxyRepairing, proxyComplete}:      {proxyServing, none, ""},
		{proxyRepairing, proxyRestartAsked}:  {proxyRepairing, none, ""},
	}
	maps.Copy(all, balancerTransitions())
	return all
}

// balancerTransitions are those of load balancers, endpoints of pods and owners of objects.
func balancerTransitions() transitions {
	return transitions{
		{unseen, there}:     {seen, none, ""},
		{unseen, missing}:   {awaited, none, ""},
		{unseen, undecided}: {unseen, none, ""},

		{seen, there}:     {seen, none, ""},
		{seen, missing}:   {lost, none, ""},
		{seen, overdue}:   {lost, none, ""}, // where a loss needs no time to be sure of
		{seen, undecided}: {seen, none, ""},
		{seen, unneeded}:  {unseen, none, ""},
		{seen, forgotten}: {unseen, none, ""},

		{awaited, there}:     {seen, none, ""},
		{awaited, missing}:   {awaited, none, ""},
		{awaited, overdue}:   {awaited, none, ""},
		{awaited, undecided}: {awaited, none, ""},
		{awaited, unneeded}:  {unseen, none, ""},
		{awaited, forgotten}: {awaited, none, ""},

		{lost, there}:     {seen, none, ""},
		{lost, missing}:   {lost, none, ""},
		{lost, overdue}:   {lost, none, ""},
		{lost, undecided}: {lost, none, ""},
		{lost, unneeded}:  {unseen, none, ""},
		{lost, forgotten}: {awaited, none, ""},
		{lost, retried}:   {abandoned, none, ""},
		{lost, doubted}:   {unseen, none, ""},

		{abandoned, there}:     {seen, none, ""},
		{abandoned, missing}:   {abandoned, none, ""},
		{abandoned, overdue}:   {abandoned, none, ""},
		{abandoned, undecided}: {abandoned, none, ""},
		{abandoned, unneeded}:  {unseen, none, ""},
		{abandoned, forgotten}: {abandoned, none, ""},
	}
}

// after is what follows an event.
func (t transitions) after(p phase, e event) (transition, error) {
	next, listed := t[at{p, e}]
	if !listed {
		return transition{next: p}, fmt.Errorf("no transition is listed for %q in phase %q", e, p)
	}
	return next, nil
}
