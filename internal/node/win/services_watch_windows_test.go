package win

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
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
	watch.Recheck, watch.Reopen, watch.Polls = time.Hour, time.Hour, false // so that only a notification can cause a message
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

// TestKilledProgramKeepsNoServiceHandle expects Windows to close the handles of a killed program.
func TestKilledProgramKeepsNoServiceHandle(t *testing.T) {
	for _, how := range []string{"has it open", "watches it"} {
		t.Run(how, func(t *testing.T) {
			s, d := mustServe(t, "runs")
			mustStart(t, s)
			other := d
			other.Name = otherName
			removeAfter(t, s, otherName)
			mustPut(t, s, other) // which is not changed
			program := exec.Command(os.Args[0])
			program.Env = append(os.Environ(), asWatcher+"="+how)
			output, err := program.StdoutPipe()
			if err == nil {
				err = program.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadFull(output, make([]byte, 1))
			err = errors.Join(err, program.Process.Kill())
			_ = program.Wait()
			if err != nil {
				t.Fatal(err)
			}
			mustRemove(t, s, testName)
			mustPut(t, s, d)
		})
	}
}

// otherName is the name of a second service.
const otherName = testName + "-other"

// holdService runs a program that keeps the service of the tests open until it is killed.
func holdService(how string) int {
	m, err := scm.Connect(0)
	if err == nil {
		_, err = m.Open(testName, windows.SERVICE_QUERY_STATUS)
	}
	if err == nil && how == "watches it" {
		_, err = scm.NewChanges().Watch(context.Background(), []string{testName, otherName})
		time.Sleep(heldFor)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print("!")
	time.Sleep(time.Minute)
	return 0
}

// heldFor is longer than the time after which a watch opens services again.
const heldFor = 5 * time.Second

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
