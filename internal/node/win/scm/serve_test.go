package scm

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// untilStopped is a program that exits when it is stopped.
func untilStopped(ctx context.Context) uint32 {
	<-ctx.Done()
	return 5
}

// with returns a program that ends on its own.
func with(code uint32) func(context.Context) uint32 {
	return func(context.Context) uint32 { return code }
}

func TestServiceReportsItsStates(t *testing.T) {
	for name, test := range map[string]struct {
		run      func(context.Context) uint32
		controls []control
		want     []serviceState
		exit     uint32
	}{
		"stop":                {untilStopped, []control{controlStop}, []serviceState{startPending, running, stopPending}, 0},
		"report, then stop":   {untilStopped, []control{controlReport, controlStop}, []serviceState{startPending, running, running, stopPending}, 0},
		"ends without a stop": {with(0), nil, []serviceState{startPending, running}, 1},
		"fails":               {with(7), nil, []serviceState{startPending, running}, 7},
		"unknown, then stop":  {untilStopped, []control{control(99), controlStop}, []serviceState{startPending, running, running, stopPending}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				controls := make(chan control)
				var reported []serviceState
				done := make(chan uint32)
				go func() { done <- serve(controls, func(s serviceState) { reported = append(reported, s) }, test.run) }()
				for _, c := range test.controls {
					controls <- c
				}
				if exit := <-done; exit != test.exit {
					t.Errorf("exit code %d, want %d", exit, test.exit)
				}
				if diff := cmp.Diff(test.want, reported); diff != "" {
					t.Errorf("states (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestServiceTakesControlsWhileItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controls, release, done := make(chan control), make(chan struct{}), make(chan uint32)
		var reported []serviceState
		slow := func(ctx context.Context) uint32 { <-ctx.Done(); <-release; return 0 }
		go func() { done <- serve(controls, func(s serviceState) { reported = append(reported, s) }, slow) }()
		controls <- controlStop
		controls <- controlReport
		controls <- controlStop
		synctest.Wait()
		close(release)
		if exit := <-done; exit != 0 {
			t.Errorf("exit code %d", exit)
		}
		want := []serviceState{startPending, running, stopPending, stopPending, stopPending}
		if diff := cmp.Diff(want, reported); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}
