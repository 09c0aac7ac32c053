package main

import (
	"context"

	"golang.org/x/sys/windows/svc"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// stopHint is how many milliseconds the service manager waits for the service to stop.
const stopHint = 20_000

// serveWindows runs the program under the control of Windows' service manager.
func serveWindows(run func(context.Context)) error {
	return svc.Run(v1alpha1.WICDService, handler(run))
}

// handler translates between the service manager and serve.
type handler func(context.Context)

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
	code := serve(controls, func(s state) { status <- translate(s) }, h)
	return code != 0, code
}

func translate(s state) svc.Status {
	return map[state]svc.Status{
		startPending: {State: svc.StartPending},
		running:      {State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown | svc.AcceptPreShutdown},
		stopPending:  {State: svc.StopPending, WaitHint: stopHint},
	}[s]
}
