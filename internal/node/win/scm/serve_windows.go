package scm

import (
	"context"

	"golang.org/x/sys/windows/svc"
)

// stopHint is how many milliseconds the service manager waits for the service to stop.
const stopHint = 20_000

// Serve runs a program as the Windows service of that name. The service manager stops it by canceling its context. If the program exits on its own, its
// exit code becomes the service's, or 1 if it is 0: then Windows restarts the service.
func Serve(service string, run func(context.Context) (exitCode uint32)) error {
	return svc.Run(service, handler(run))
}

// handler is a program that is run as a service.
type handler func(context.Context) uint32

// Execute is called by the service manager. It reports every state, and cancels the program's context at a stop, shutdown or preshutdown. If the program
// exits on its own, the exit code is never 0, so that the service manager restarts it.
func (h handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (isSpecific bool, exitCode uint32) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	status <- svc.Status{State: svc.StartPending}
	ended := make(chan uint32, 1)
	go func() { ended <- h(ctx) }()
	current := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown | svc.AcceptPreShutdown}
	status <- current
	for {
		select {
		case code := <-ended:
			if current.State == svc.Running {
				return true, max(code, 1)
			}
			return false, 0
		case r := <-requests:
			if r.Cmd != svc.Interrogate {
				current = svc.Status{State: svc.StopPending, WaitHint: stopHint}
				cancel()
			}
			status <- current
		}
	}
}
