package scm

import (
	"context"

	"golang.org/x/sys/windows/svc"
)

// stopHint is how many milliseconds the service manager waits for the service to stop.
const stopHint = 20_000

// Serve runs a program as the Windows service of that name. The service manager stops it by canceling its context.
func Serve(service string, run func(context.Context)) error {
	return ServeCode(service, func(ctx context.Context) uint32 {
		run(ctx)
		return 0
	})
}

// ServeCode is Serve for a program with an exit code, which becomes the service's if the program exits on its own.
func ServeCode(service string, run func(context.Context) (exitCode uint32)) error {
	return svc.Run(service, handler(run))
}

// handler translates between the service manager and serve.
type handler func(context.Context) uint32

// Execute is called by the service manager.
func (h handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	controls := make(chan control)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case r := <-requests:
				c := controlStop
				if r.Cmd == svc.Interrogate {
					c = controlReport
				}
				select {
				case controls <- c:
				case <-ended:
					return
				}
			}
		}
	}()
	code := serve(controls, func(s serviceState) { status <- translate(s) }, h)
	return code != 0, code
}

func translate(s serviceState) svc.Status {
	return map[serviceState]svc.Status{
		startPending: {State: svc.StartPending},
		running:      {State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown | svc.AcceptPreShutdown},
		stopPending:  {State: svc.StopPending, WaitHint: stopHint},
	}[s]
}
