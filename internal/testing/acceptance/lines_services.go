package acceptance

// serviceLines returns the lines about Windows' service control manager.
func serviceLines() []Line {
	return []Line{
		{
			ID: "service-manager", Title: "Service control manager",
			Text: "recovery actions, delayed start and pre-shutdown time are set with the documented calls; Wine does not store " +
				"them. Microseconds pass between creating a service and setting its description. A power cut in between leaves a " +
				"service that the next join considers foreign (`ServiceConflict`; remove it with `sc.exe delete`). According to " +
				"its documentation, Windows restarts WICD when its process is killed; Wine's SCM does not.",
			Claim: "Windows restarts a service whose process was killed, or that ended with an error",
			Tests: []string{
				"TestServicesKeepTheContract/CrashedServiceIsRestarted",
				"TestServicesKeepTheContract/FailedServiceIsRestarted",
				"TestFailureActionDelayIsInMilliseconds",
				"TestServiceStartsAtBootAndIsRestarted",
				"TestPutKeepsALongerPreShutdownTime",
			},
		},
		{
			ID: "service-deletion", Title: "Deleting a running service",
			Text: "Windows reports it, and WICD creates the service again at once. Wine does not report it; there " +
				"it is detected when the service stops.",
			Claim: "the deletion of a running service is reported, and the service is created again when it has stopped",
			Tests: []string{
				"TestServicesKeepTheContract/WatchReportsDeletion",
				"TestServicesKeepTheContract/DeletedServiceCanBeCreatedAgainAfterItStops",
			},
		},
		{
			ID: "listeners", Title: "Listeners on ports of the node",
			Text: "the tables of TCP and UDP were read on Wine, which does not always report which process owns a socket. " +
				"According to its documentation, Windows does, for services too.",
			Claim: "a program that listens on a port of the node or on a named pipe is detected",
			Tests: []string{
				"TestListenersOnNodePortsAreFound",
				"TestNamedPipeIsDetectedWithoutConnecting",
			},
		},
		{
			ID: "service-environment", Title: "Environment of a service",
			Text: "Wine's service manager ignores it; containerd and the kubelet of the tests read it themselves when they start. " +
				"According to its documentation, Windows reads it at each start of a service.",
			Claim: "Windows reads the environment of a service each time the service starts",
			Tests: []string{
				"TestServicesKeepTheContract/ServiceEnvironmentTakesEffectAtNextStart",
			},
		},
		{
			ID: "failure-actions", Title: "Restart of a service that stops with an error",
			Text: "Windows documents for `FailureActionsFlag` that a change takes effect at the next start of the " +
				"system. Until then WICD restarts the service.",
			Reason: "it requires a restart of Windows",
		},
	}
}

// processLines returns the lines about the processes of services.
func processLines() []Line {
	return []Line{
		{
			ID: "log-runner", Title: "Terminating kube-log-runner",
			Text: "it is unknown whether the kubelet below it also terminates on Windows. If it does not, as on Wine, WICD " +
				"terminates it before the service starts again.",
			Claim:   "the child of kube-log-runner keeps running when kube-log-runner is terminated",
			Changes: "temporarily starts two programs",
			Try:     tryLogRunner,
		},
		{
			ID: "shared-processes", Title: "Services that share a process",
			Text: "stopping those of `svchost` waits for the service, then for its process. Only services with their own " +
				"process were tested, as all of the operator's services are.",
			Reason: "such services are Windows' own, and stopping them could harm the machine",
		},
		{
			ID: "kubelet-shutdown", Title: "Graceful shutdown of the kubelet",
			Text: "the effect of `spec.kubelet.shutdownGracePeriod` was never observed: Wine does not notify services before a " +
				"shutdown. Windows starts kube-log-runner, and the kubelet below it registers for the " +
				"notification, as it does for a stop. That Windows accepts this from a child process is known for a stop, " +
				"from the original operator. WICD may try to start the kubelet again while Windows shuts down.",
			Reason: "it requires a node and a restart of Windows",
		},
		{
			ID: "priority-class", Title: "Priority class",
			Text:   "the kubelet is started with it; its effect on Windows was not measured.",
			Reason: "it requires a node under load",
		},
	}
}
