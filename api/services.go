package api

// States of services in annotation services of a Node.
const (
	// ServiceRunning means that the service runs.
	ServiceRunning = "Running"
	// ServiceStopped means that the service does not run, and that nothing prevents WICD from starting it.
	ServiceStopped = "Stopped"
	// ServiceWaiting means that the service does not start before another service works or a file exists.
	ServiceWaiting = "Waiting"
	// ServiceCrashLoop means that the service failed three times within five minutes (reason ServiceCrashLoop).
	ServiceCrashLoop = "CrashLoop"
	// ServiceNotReady means that the service runs but has not worked for a minute (reason ServiceNotReady).
	ServiceNotReady = "NotReady"
)
