package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// untilTold is a program that ends when it is told to.
func untilTold(ctx context.Context) { <-ctx.Done() }

func TestServiceTellsItsStates(t *testing.T) {
	for name, test := range map[string]struct {
		run      func(context.Context)
		controls []control
		want     []state
		exit     uint32
	}{
		"stop":                {untilTold, []control{controlStop}, []state{startPending, running, stopPending}, 0},
		"report, then stop":   {untilTold, []control{controlReport, controlStop}, []state{startPending, running, running, stopPending}, 0},
		"ends without a stop": {func(context.Context) {}, nil, []state{startPending, running}, 1},
		"unknown, then stop":  {untilTold, []control{control(99), controlStop}, []state{startPending, running, running, stopPending}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				controls := make(chan control)
				var told []state
				done := make(chan uint32)
				go func() { done <- serve(controls, func(s state) { told = append(told, s) }, test.run) }()
				for _, c := range test.controls {
					controls <- c
				}
				if exit := <-done; exit != test.exit {
					t.Errorf("exit code %d, want %d", exit, test.exit)
				}
				if diff := cmp.Diff(test.want, told); diff != "" {
					t.Errorf("states (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestServiceTakesControlsWhileItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controls, release, done := make(chan control), make(chan struct{}), make(chan uint32)
		var told []state
		slow := func(ctx context.Context) { <-ctx.Done(); <-release }
		go func() { done <- serve(controls, func(s state) { told = append(told, s) }, slow) }()
		controls <- controlStop
		controls <- controlReport
		controls <- controlStop
		synctest.Wait()
		close(release)
		if exit := <-done; exit != 0 {
			t.Errorf("exit code %d", exit)
		}
		want := []state{startPending, running, stopPending, stopPending, stopPending}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}
