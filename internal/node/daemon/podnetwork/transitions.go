package podnetwork

import (
	"fmt"
	"maps"

	"github.com/windows-machine-config/wmco/api"
)

// phase is the state of one part of the network.
type phase string

const (
	// hnsAnswers means that the Host Network Service answers, hnsUnavailable that it did not and that no network was found since.
	hnsAnswers     phase = "the service answers"
	hnsUnavailable phase = "the service was unavailable"

	// networkAwaited has not been seen yet. The service that creates it may be waiting for something.
	networkAwaited phase = "network awaited"
	networkPresent phase = "network present"
	// networkLost existed and is now missing.
	networkLost phase = "network gone"
	// networkRestoring is missing, and the service that creates it was restarted for that.
	networkRestoring phase = "network restoring"

	// proxyStarting has not created all load balancers yet: for proxyStartup, a missing one is not a loss.
	proxyStarting phase = "proxy starting"
	// proxyServing has created all of them once: a missing one was lost.
	proxyServing phase = "proxy serving"
	// proxyRestarting was requested to restart for a loss; the process that had created all of them still runs.
	proxyRestarting phase = "proxy restarting"
	// proxyRepairing was restarted for a loss and has not re-created all of them yet.
	proxyRepairing phase = "proxy repairing"

	// A load balancer, a pod's endpoint or an object's owner is unseen until it was present. When it is missing, it is lost if it was present
	// before, and awaited otherwise or if its earlier presence no longer counts.
	unseen  phase = "unseen"
	seen    phase = "seen"
	awaited phase = "awaited"
	lost    phase = "lost"
	// abandoned is a load balancer for which kube-proxy was restarted. The same loss does not cause another restart.
	abandoned phase = "abandoned"
)

// event is a finding of a pass, or an action that it takes.
type event string

const (
	// readFails and readUnavailable are failed reads; with the latter, the Host Network Service is unavailable.
	readFails       event = "the read fails"
	readUnavailable event = "the service is unavailable"
	// networkFound is the network that existed before, or the first one; networkReplaced is a different one.
	networkFound    event = "network found"
	networkReplaced event = "network replaced"
	// networkMissing means that there is no network, networkOverdue that this lasted longer than its phase allows.
	networkMissing event = "network missing"
	networkOverdue event = "network overdue"

	// proxyReplaced means that the process is not the same as before, or that none runs.
	proxyReplaced event = "proxy replaced"
	// proxyComplete means that no load balancer is missing, and none belongs to the previous process.
	proxyComplete event = "proxy complete"
	// proxyRestartRequested means that kube-proxy is restarted for a loss.
	proxyRestartRequested event = "proxy restart requested"

	present event = "present"
	missing event = "missing"
	// overdue means that something was missing for longer than its phase allows.
	overdue event = "overdue"
	// undecided means that the existing object belongs, or may belong, to the previous process. unneeded means that it is not required or has
	// changed: earlier observations say nothing about a later absence.
	undecided event = "undecided"
	unneeded  event = "unneeded"
	// forgotten means that its earlier presence no longer counts.
	forgotten event = "forgotten"
	// retried means that kube-proxy is restarted for it, unconfirmed that the API server does not confirm that it is required.
	retried     event = "retried"
	unconfirmed event = "unconfirmed"
)

// action is what a transition does.
type action string

const (
	none           action = ""
	restartCreator action = "restart the service that creates the network"
	// restartProxy restarts kube-proxy, which then re-creates everything.
	restartProxy action = "restart kube-proxy"
)

// transitionKey is the phase and the event at which a transition begins.
type transitionKey struct {
	phase phase
	event event
}

// transition is the next phase, the action, and the reason for which the Node's condition becomes True.
type transition struct {
	next   phase
	do     action
	reason string
}

// transitions is the table. Other combinations cannot happen.
type transitions map[transitionKey]transition

// networkTransitions returns the table for everything that is remembered between passes, except times and counts.
func networkTransitions() transitions {
	const down, absent = api.ReasonHNSUnavailable, api.ReasonHNSNetworkMissing
	all := transitions{
		{hnsAnswers, readFails}:           {hnsAnswers, none, down},
		{hnsAnswers, readUnavailable}:     {hnsUnavailable, none, down},
		{hnsAnswers, networkFound}:        {hnsAnswers, none, ""},
		{hnsUnavailable, readFails}:       {hnsUnavailable, none, down},
		{hnsUnavailable, readUnavailable}: {hnsUnavailable, none, down},
		{hnsUnavailable, networkFound}:    {hnsAnswers, restartProxy, ""}, // kube-proxy treats objects that it could not query as gone (kubernetes#139519)

		{networkAwaited, networkMissing}:    {networkAwaited, none, absent},
		{networkAwaited, networkOverdue}:    {networkRestoring, restartCreator, absent},
		{networkAwaited, networkFound}:      {networkPresent, none, ""},
		{networkPresent, networkMissing}:    {networkLost, none, absent},
		{networkPresent, networkFound}:      {networkPresent, none, ""},
		{networkPresent, networkReplaced}:   {networkPresent, restartProxy, ""},
		{networkLost, networkMissing}:       {networkLost, none, absent},
		{networkLost, networkOverdue}:       {networkRestoring, restartCreator, absent},
		{networkLost, networkFound}:         {networkPresent, none, ""},
		{networkLost, networkReplaced}:      {networkPresent, restartProxy, ""},
		{networkRestoring, networkMissing}:  {networkRestoring, none, absent},
		{networkRestoring, networkOverdue}:  {networkRestoring, restartCreator, absent},
		{networkRestoring, networkFound}:    {networkPresent, none, ""},
		{networkRestoring, networkReplaced}: {networkPresent, restartProxy, ""},

		{proxyStarting, proxyReplaced}:           {proxyStarting, none, ""},
		{proxyStarting, proxyComplete}:           {proxyServing, none, ""},
		{proxyStarting, proxyRestartRequested}:   {proxyRepairing, none, ""},
		{proxyServing, proxyReplaced}:            {proxyStarting, none, ""},
		{proxyServing, proxyComplete}:            {proxyServing, none, ""},
		{proxyServing, proxyRestartRequested}:    {proxyRestarting, none, ""},
		{proxyRestarting, proxyReplaced}:         {proxyRepairing, none, ""},
		{proxyRestarting, proxyComplete}:         {proxyServing, none, ""},
		{proxyRestarting, proxyRestartRequested}: {proxyRestarting, none, ""},
		{proxyRepairing, proxyReplaced}:          {proxyRepairing, none, ""},
		{proxyRepairing, proxyComplete}:          {proxyServing, none, ""},
		{proxyRepairing, proxyRestartRequested}:  {proxyRepairing, none, ""},
	}
	maps.Copy(all, balancerTransitions())
	return all
}

// balancerTransitions returns the rows for load balancers, pods' endpoints and owners of objects.
func balancerTransitions() transitions {
	return transitions{
		{unseen, present}:   {seen, none, ""},
		{unseen, missing}:   {awaited, none, ""},
		{unseen, undecided}: {unseen, none, ""},

		{seen, present}:   {seen, none, ""},
		{seen, missing}:   {lost, none, ""},
		{seen, overdue}:   {lost, none, ""}, // where a loss is certain without waiting
		{seen, undecided}: {seen, none, ""},
		{seen, unneeded}:  {unseen, none, ""},
		{seen, forgotten}: {unseen, none, ""},

		{awaited, present}:   {seen, none, ""},
		{awaited, missing}:   {awaited, none, ""},
		{awaited, overdue}:   {awaited, none, ""},
		{awaited, undecided}: {awaited, none, ""},
		{awaited, unneeded}:  {unseen, none, ""},
		{awaited, forgotten}: {awaited, none, ""},

		{lost, present}:     {seen, none, ""},
		{lost, missing}:     {lost, none, ""},
		{lost, overdue}:     {lost, none, ""},
		{lost, undecided}:   {lost, none, ""},
		{lost, unneeded}:    {unseen, none, ""},
		{lost, forgotten}:   {awaited, none, ""},
		{lost, retried}:     {abandoned, none, ""},
		{lost, unconfirmed}: {unseen, none, ""},

		{abandoned, present}:   {seen, none, ""},
		{abandoned, missing}:   {abandoned, none, ""},
		{abandoned, overdue}:   {abandoned, none, ""},
		{abandoned, undecided}: {abandoned, none, ""},
		{abandoned, unneeded}:  {unseen, none, ""},
		{abandoned, forgotten}: {abandoned, none, ""},
	}
}

// after returns the transition for an event.
func (t transitions) after(p phase, e event) (transition, error) {
	next, listed := t[transitionKey{p, e}]
	if !listed {
		return transition{next: p}, fmt.Errorf("no transition for event %q in phase %q", e, p)
	}
	return next, nil
}
