package win

import (
	"context"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/win/scm"
)

func TestWatchReleasesADeletedServiceAndSeesTheNext(t *testing.T) {
	s, d := mustServe(t, "runs")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes, err := scm.NewChanges().Watch(ctx, []string{testName})
	if err != nil {
		t.Fatal(err)
	}
	mustRemove(t, s, testName)
	await(t, changes, "deleted")
	if _, err := s.Put(t.Context(), d); err != nil { // fails while the watch has the deleted service open
		t.Fatal(err)
	}
	await(t, changes, "created again")
	mustStart(t, s)
	await(t, changes, "started")
}

func TestWatchUsesNotifications(t *testing.T) {
	s, d := mustServe(t, "runs")
	watch := scm.NewChanges()
	watch.LookAgain, watch.Reopen = time.Hour, time.Hour // so that only a notification can cause a message
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes, err := watch.Watch(ctx, []string{testName})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustStart(t, s)
		await(t, changes, "started")
		drain(changes)
		if err := s.Stop(t.Context(), testName); err != nil {
			t.Fatal(err)
		}
		await(t, changes, "stopped")
		drain(changes)
	}
	depends := d
	depends.DependsOn = []string{"wicd-absent"}
	for what, edit := range edits() {
		mustPut(t, s, depends)
		drain(changes)
		edit(t, testName)
		await(t, changes, what)
	}
	mustPut(t, s, d)
	for range 2 { // the second process was started during the watch
		mustStart(t, s)
		drain(changes)
		crash(t, testName)
		await(t, changes, "died")
		drain(changes)
	}
}

// await waits for a message of a watch.
func await(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: no message", what)
	}
}

// drain reads messages until none has arrived for a while.
func drain(changes <-chan struct{}) {
	for {
		select {
		case <-changes:
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}
