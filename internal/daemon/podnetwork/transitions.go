package podnetwork

// proxyState is how far kube-proxy is with the load balancers of Services. kube-proxy makes all of them when it starts, and does not
// notice later that Windows has lost one; then it is restarted, and the Node is told of what is missing until all is there.
//
//	                    | another process | all is there | asked to restart
//	proxyStarting       | proxyStarting   | proxyServing | proxyRepairing
//	proxyServing        | proxyStarting   | proxyServing | proxyRestarting
//	proxyRestarting     | proxyRepairing  | proxyServing | proxyRestarting
//	proxyRepairing      | proxyRepairing  | proxyServing | proxyRepairing
//
// No process counts as another one.
type proxyState int

const (
	// proxyStarting has not made all load balancers yet: for proxyStarts, what is missing is no loss.
	proxyStarting proxyState = iota
	// proxyServing has made all of them once: what is missing was lost.
	proxyServing
	// proxyRestarting was asked to restart for what was lost; the process that had made all of them still runs.
	proxyRestarting
	// proxyRepairing was restarted for what was lost, and has not made all of them yet.
	proxyRepairing
)

// proxyEvent is what a look has shown of kube-proxy, or what is done about it.
type proxyEvent int

const (
	// proxyReplaced says that another process runs than before, or none.
	proxyReplaced proxyEvent = iota
	// proxyComplete says that no load balancer is missing, for so long after the start that none of the process before is meant.
	proxyComplete
	// proxyRestartAsked says that kube-proxy is restarted for what was lost.
	proxyRestartAsked
)

// after is the state that follows an event, from the table above.
func (s proxyState) after(e proxyEvent) proxyState {
	return [...][3]proxyState{
		proxyStarting:   {proxyReplaced: proxyStarting, proxyComplete: proxyServing, proxyRestartAsked: proxyRepairing},
		proxyServing:    {proxyReplaced: proxyStarting, proxyComplete: proxyServing, proxyRestartAsked: proxyRestarting},
		proxyRestarting: {proxyReplaced: proxyRepairing, proxyComplete: proxyServing, proxyRestartAsked: proxyRestarting},
		proxyRepairing:  {proxyReplaced: proxyRepairing, proxyComplete: proxyServing, proxyRestartAsked: proxyRepairing},
	}[s][e]
}

// hasMadeAll tells whether the process that runs has made all load balancers once.
func (s proxyState) hasMadeAll() bool { return s == proxyServing || s == proxyRestarting }

// isRepair tells whether something was lost, and not all is there again: the Node is told of all that is missing.
func (s proxyState) isRepair() bool { return s == proxyRestarting || s == proxyRepairing }
