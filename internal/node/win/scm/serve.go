package scm

import "context"

// control is a control code of the service manager.
type control int

const (
	// controlStop is any of the ways in which Windows ends a service: stop, shutdown and preshutdown.
	controlStop control = iota
	// controlReport requests the state.
	controlReport
)

// serviceState is a state that a service reports.
type serviceState int

const (
	startPending serviceState = iota
	running
	stopPending
)

// serve runs the program as a service. It reports every state, and cancels the program's context at a stop control. If the program exits on its own,
// the exit code is never 0, so that the service manager restarts it.
func serve(controls <-chan control, report func(serviceState), run func(context.Context) uint32) (exitCode uint32) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	report(startPending)
	ended := make(chan uint32, 1)
	go func() { ended <- run(ctx) }()
	now := running
	report(now)
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
			report(now)
		}
	}
}
