package main

import "context"

// control is what the service manager asks of a service.
type control int

const (
	// controlStop is each way in which Windows ends a service: stop, shutdown, and the notice before a shutdown.
	controlStop control = iota
	// controlReport asks for the state.
	controlReport
)

// state is what a service tells the service manager.
type state int

const (
	startPending state = iota
	running
	stopPending
)

// serve runs the program as a service. It tells every state, and ends the program's context when it is asked to stop.
// The exit code is 1 when the program ended without being asked to: then the service manager starts it again.
func serve(controls <-chan control, tell func(state), run func(context.Context)) (exitCode uint32) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tell(startPending)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	now := running
	tell(now)
	for {
		select {
		case <-ended:
			if now == running {
				return 1
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
