package scm

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	// gather is how long changes are collected for one message.
	gather = 50 * time.Millisecond
	// pending marks a notification that has not arrived; Windows writes the result over it.
	pending = ^uint32(0)
	// maxWatched services fit into one wait: Windows accepts 64 objects (MAXIMUM_WAIT_OBJECTS in winnt.h), two for each service
	// and one for the end.
	maxWatched = 31
)

// Changes watches services.
type Changes struct {
	// LookAgain is how often watched services are opened and read without a notification. There are none for missing services,
	// and on Wine none for services that are being deleted, which an open handle delays.
	LookAgain time.Duration
	// wake is a callback of Windows that does nothing; its call wakes the watching thread.
	wake uintptr
}

// NewChanges is called once per process: each call uses one of the two thousand callbacks that Go can give to Windows.
func NewChanges() *Changes {
	return &Changes{LookAgain: 2 * time.Second, wake: windows.NewCallback(func(uintptr) uintptr { return 0 })}
}

// Watch sends a message when one of the services changes, one for several changes within a short time, until ctx is done; then it
// closes the channel. Services need not exist.
//
// The SCM sends its notifications (NotifyServiceStatusChange) to the waiting thread that registered, so one thread is used until
// ctx is done. A notification only wakes it: it reads the changes itself, so that none is missed.
//
// The SCM sends no notifications about declarations. They are in the registry, which signals changes of a service's key.
func (c *Changes) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if len(names) > maxWatched {
		return nil, fmt.Errorf("watching %d services: at most %d can be watched", len(names), maxWatched)
	}
	m, err := Connect(0)
	if err != nil {
		return nil, err
	}
	w := &watcher{Manager: m, wake: c.wake, lookAgain: c.LookAgain, changes: make(chan struct{}, 1)}
	if w.stop, err = windows.CreateEvent(nil, 1, 0, nil); err != nil {
		m.Close()
		return nil, err
	}
	for _, name := range names {
		edited, err := windows.CreateEvent(nil, 1, 0, nil)
		if err != nil {
			w.free()
			return nil, err
		}
		w.services = append(w.services, &watched{name: name, edited: edited})
	}
	ready := make(chan struct{})
	go w.run(ctx, ready)
	<-ready
	return w.changes, nil
}

// watcher watches services on one thread.
type watcher struct {
	Manager
	wake      uintptr
	lookAgain time.Duration
	stop      windows.Handle // event
	services  []*watched
	changes   chan struct{}
}

// run watches until ctx is done. ready is closed when every service was read once.
func (w *watcher) run(ctx context.Context, ready chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() { _ = windows.SetEvent(w.stop); close(stopped) })
	w.look()
	close(ready)
	for ctx.Err() == nil {
		if !w.noticed() {
			w.reopen()
		}
		if ctx.Err() == nil && w.look() {
			select {
			case w.changes <- struct{}{}:
			default: // one is waiting to be read
			}
		}
	}
	<-stopped
	w.close()
	windows.SleepEx(0, true) // receives the notifications in flight
	runtime.KeepAlive(w.services)
	w.free()
	close(w.changes)
}

// free releases the resources of Watch.
func (w *watcher) free() {
	w.close()
	for _, s := range w.services {
		_ = windows.CloseHandle(s.edited)
	}
	_ = windows.CloseHandle(w.stop)
}

// reopen creates a new connection. The SCM sends nothing more on one that lags behind.
func (w *watcher) reopen() {
	if m, err := Connect(0); err == nil {
		w.close()
		w.Manager = m
	}
}

// close closes all services and the connection.
func (w *watcher) close() {
	for _, s := range w.services {
		s.close()
	}
	w.Manager.Close()
	w.Manager = Manager{}
}

// noticed waits for a notification, an edit, the exit of a process, the next poll, or the end of ctx, for which it returns true.
func (w *watcher) noticed() bool {
	objects := []windows.Handle{w.stop}
	for _, s := range w.services {
		objects = append(objects, s.edited)
		if s.process.Handle != 0 {
			objects = append(objects, s.process.Handle)
		}
	}
	waitAlertably := windows.NewLazySystemDLL("kernel32.dll").NewProc("WaitForMultipleObjectsEx")
	event, _, _ := waitAlertably.Call(uintptr(len(objects)), uintptr(unsafe.Pointer(&objects[0])), 0, uintptr(w.lookAgain.Milliseconds()), 1)
	if event != windows.WAIT_IO_COMPLETION && event >= uintptr(len(objects)) {
		return false
	}
	_, _ = windows.WaitForSingleObject(w.stop, uint32(gather.Milliseconds()))
	return true
}

// look reads every service and subscribes to its next change; it reports whether something changed.
func (w *watcher) look() (changed bool) {
	for _, s := range w.services {
		if s.look(w.Manager, w.wake) {
			changed = true
		}
	}
	return changed
}
