package scm

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
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
	// Recheck is how often watched services are read without a notification while one of them is absent: its creation is not notified.
	Recheck time.Duration
	// Reopen is how often all of them are opened again, in case a notification was lost. On Wine it equals Recheck, because Wine sends no
	// notifications for services that are being deleted, and an open handle delays the deletion.
	Reopen time.Duration
	// Polls reads services as often as they are opened again, without notifications. On Wine, a program that is killed while it waits for a
	// notification keeps all its services open, so that deleted ones never disappear.
	Polls bool
	// kept contains all services that were ever watched. Windows' threads may write notifications into them after their handles were closed.
	mu   sync.Mutex
	kept []*watched
	// wake is a callback of Windows that does nothing; its call wakes the watching thread.
	wake uintptr
}

// NewChanges must be called once per process: each call uses one of the two thousand callbacks that Go can give to Windows.
func NewChanges() *Changes {
	const recheckInterval, reopenInterval = 2 * time.Second, 30 * time.Second
	c := &Changes{Recheck: recheckInterval, Reopen: reopenInterval, wake: windows.NewCallback(func(uintptr) uintptr { return 0 })}
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		c.Reopen, c.Polls = recheckInterval, true
	}
	return c
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
	w := &watcher{Manager: m, wake: c.wake, recheck: c.Recheck, reopenAfter: c.Reopen, opened: time.Now(), changes: make(chan struct{}, 1)}
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
		w.services = append(w.services, &watched{name: name, edited: edited, polled: c.Polls})
	}
	c.mu.Lock()
	c.kept = append(c.kept, w.services...)
	c.mu.Unlock()
	ready := make(chan struct{})
	go w.run(ctx, ready)
	<-ready
	return w.changes, nil
}

// watcher watches services on one thread.
type watcher struct {
	Manager
	wake        uintptr
	recheck     time.Duration
	reopenAfter time.Duration
	// opened is when all services were opened.
	opened   time.Time
	stop     windows.Handle // event
	services []*watched
	changes  chan struct{}
}

// run watches until ctx is done. ready is closed when every service was read once.
func (w *watcher) run(ctx context.Context, ready chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() { _ = windows.SetEvent(w.stop); close(stopped) })
	w.refresh()
	close(ready)
	for ctx.Err() == nil {
		if !w.noticed() && time.Since(w.opened) >= w.reopenAfter {
			w.reopen()
		}
		if ctx.Err() == nil && w.refresh() {
			select {
			case w.changes <- struct{}{}:
			default: // a message is already pending
			}
		}
	}
	<-stopped
	w.close()
	windows.SleepEx(0, true) // receives queued notifications
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

// reopen creates a new connection. The SCM sends no more notifications on one that lags behind.
func (w *watcher) reopen() {
	if m, err := Connect(0); err == nil {
		w.close()
		w.Manager, w.opened = m, time.Now()
	}
}

// waitTime is how long to wait for a notification.
func (w *watcher) waitTime() time.Duration {
	if slices.ContainsFunc(w.services, func(s *watched) bool { return s.handle == 0 }) {
		return w.recheck
	}
	return max(0, w.reopenAfter-time.Since(w.opened))
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
	event, _, _ := waitAlertably.Call(uintptr(len(objects)), uintptr(unsafe.Pointer(&objects[0])), 0, uintptr(w.waitTime().Milliseconds()), 1)
	if event != windows.WAIT_IO_COMPLETION && event >= uintptr(len(objects)) {
		return false
	}
	_, _ = windows.WaitForSingleObject(w.stop, uint32(gather.Milliseconds()))
	return true
}

// refresh reads every service and subscribes to its next change; it reports whether something changed.
func (w *watcher) refresh() (changed bool) {
	for _, s := range w.services {
		if s.refresh(w.Manager, w.wake) {
			changed = true
		}
	}
	return changed
}
