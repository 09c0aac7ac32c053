package contract

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func watchReportsStartStopAndCrash(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs), declare(Second, f.Runs))
	changes, err := f.Changes.Watch(deadline(t), []string{First, Second, Third})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"start", func() { mustStart(t, f, Second) }},
		{"stop", func() {
			if err := f.Services.Stop(deadline(t), Second); err != nil {
				t.Fatal(err)
			}
		}},
		{"start of the other", func() { mustStart(t, f, First) }},
		{"crash", func() { f.Crash(t, First) }},
	} {
		drain(changes)
		step.do()
		expectMessage(t, changes, step.what)
	}
}

// watchReportsEdits also checks that Put reverts edits, and then has nothing more to do.
func watchReportsEdits(t *testing.T, f ServicesFixture) {
	declared := with(declare(Second, f.Runs, First), values())
	mustPut(t, f, declare(First, f.Runs), declared)
	mustStart(t, f, Second)
	changes, err := f.Changes.Watch(deadline(t), []string{First, Second})
	if err != nil {
		t.Fatal(err)
	}
	for what, edit := range f.Edits {
		drain(changes)
		edit(t, Second)
		expectMessage(t, changes, what)
		for _, want := range []bool{true, false} {
			if changed, err := f.Services.Put(deadline(t), declared); err != nil || changed != want {
				t.Errorf("%s: Put() = %v, %v, want %v", what, changed, err, want)
			}
		}
		if diff := cmp.Diff(declared, mustList(t, f)[Second].Service); diff != "" {
			t.Errorf("%s: the service is not as declared (-want +got):\n%s", what, diff)
		}
	}
}

func expectMessage(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(waitTimeout):
		t.Fatalf("%s: no message within %v", what, waitTimeout)
	}
}

func watchReportsDeletion(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs))
	changes, err := f.Changes.Watch(deadline(t), []string{First})
	if err != nil {
		t.Fatal(err)
	}
	f.Delete(t, First)
	expectMessage(t, changes, "deletion")
	if changed, err := f.Services.Put(deadline(t), declare(First, f.Runs)); err != nil || !changed {
		t.Errorf("Put() = %v, %v, want true, nil", changed, err)
	}
}

// drain receives pending messages until none arrives for a while.
func drain(changes <-chan struct{}) {
	for {
		select {
		case _, open := <-changes:
			if !open {
				return
			}
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

func watchEndsWithItsContext(t *testing.T, f ServicesFixture) {
	expectEnd(t, func(ctx context.Context) (<-chan struct{}, error) { return f.Changes.Watch(ctx, []string{First}) })
}

func watchReportsStopAndStart(t *testing.T, f NetworksFixture) {
	if f.Stop == nil {
		t.Skip(f.NoStop)
	}
	changes, err := f.Networks.Watch(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		drain(changes)
		f.Stop(t)
		expectMessage(t, changes, "stop")
		drain(changes)
		f.Start(t)
		expectMessage(t, changes, "start")
	}
}

func networkWatchEnds(t *testing.T, f NetworksFixture) { expectEnd(t, f.Networks.Watch) }

// expectEnd starts a watch, and waits until it closes its channel because its context has ended.
func expectEnd(t *testing.T, watch func(context.Context) (<-chan struct{}, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for end := time.After(waitTimeout); ; {
		select {
		case _, open := <-changes:
			if !open {
				return
			}
		case <-end:
			t.Fatal("the channel is still open")
		}
	}
}
