package scm

import "context"

// control is what the service manager asks of a service.
type control int

const (
	// controlStop is each way in which Windows ends a service: stop, shutdown, and the notice before a shutdown.
	controlStop control = iota
	// controlReport asks for the state.
	controlReport
)

// serviceState is what a service tells the service manager.
type serviceState int

const (
	startPending serviceState = iota
	running
	stopPending
)

// serve runs the program as a service. It tells every state, and ends the program's context when it is asked to stop.
// The exit code is that of a program that ended without being asked to, and never 0 then: so the service manager starts it again.
func serve(controls <-chan control, tell func(serviceState), run func(context.Context) uint32) (exitCode uint32) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tell(startPending)
	ended := make(chan uint32, 1)
	go func() { ended <- run(ctx) }()
	now := running
	tell(now)
	for {
		select {
		case code := <-ended:
			if now == running {
				return max(code, 1)
			}
			return 0
		case c := <-controls:
			if c == controlStop {
				now = stopPending
				cancel()
			}
			tell(now)
		}
	}
}
