package scm

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/windows/svc"
)

// executed runs a program as a service that receives these requests, and returns the states that it reports, and its exit code. ended, if not nil, is
// called after the last request.
func executed(run handler, requests []svc.Cmd, ended func()) (states []svc.State, exitCode uint32) {
	sent, status, done := make(chan svc.ChangeRequest), make(chan svc.Status), make(chan uint32)
	go func() {
		_, code := run.Execute(nil, sent, status)
		close(status)
		done <- code
	}()
	go func() {
		for _, r := range requests {
			sent <- svc.ChangeRequest{Cmd: r}
		}
		if ended != nil {
			ended()
		}
	}()
	for s := range status {
		states = append(states, s.State)
	}
	return states, <-done
}

func TestServiceReportsItsStates(t *testing.T) {
	untilStopped := func(ctx context.Context) uint32 { <-ctx.Done(); return 5 }
	with := func(code uint32) handler { return func(context.Context) uint32 { return code } }
	for name, test := range map[string]struct {
		run      handler
		requests []svc.Cmd
		want     []svc.State
		exit     uint32
	}{
		"stop":                {untilStopped, []svc.Cmd{svc.Stop}, []svc.State{svc.StartPending, svc.Running, svc.StopPending}, 0},
		"preshutdown":         {untilStopped, []svc.Cmd{svc.PreShutdown}, []svc.State{svc.StartPending, svc.Running, svc.StopPending}, 0},
		"report, then stop":   {untilStopped, []svc.Cmd{svc.Interrogate, svc.Stop}, []svc.State{svc.StartPending, svc.Running, svc.Running, svc.StopPending}, 0},
		"ends without a stop": {with(0), nil, []svc.State{svc.StartPending, svc.Running}, 1},
		"fails":               {with(7), nil, []svc.State{svc.StartPending, svc.Running}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if states, exit := executed(test.run, test.requests, nil); exit != test.exit || !slices.Equal(states, test.want) {
					t.Errorf("states %v, exit code %d, want %v, %d", states, exit, test.want, test.exit)
				}
			})
		})
	}
}

func TestServiceAcceptsControlsWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		slow := func(ctx context.Context) uint32 { <-ctx.Done(); <-release; return 0 }
		states, exit := executed(slow, []svc.Cmd{svc.Stop, svc.Interrogate, svc.Stop}, func() { close(release) })
		if want := []svc.State{svc.StartPending, svc.Running, svc.StopPending, svc.StopPending, svc.StopPending}; exit != 0 || !slices.Equal(states, want) {
			t.Errorf("states %v, exit code %d, want %v", states, exit, want)
		}
	})
}
