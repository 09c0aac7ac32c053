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
	// gather is how long changes are gathered for one message.
	gather = 50 * time.Millisecond
	// pending marks a notice that has not come; Windows writes the outcome over it.
	pending = ^uint32(0)
	// maxWatched services fit into one wait: Windows takes 64 objects (MAXIMUM_WAIT_OBJECTS in winnt.h), two for each
	// service and one for the end.
	maxWatched = 31
)

// Changes tells of services that changed.
type Changes struct {
	// LookAgain is how often watched services are opened and looked at without a notice. There is none for absent services,
	// and from Wine none for services about to be deleted, which an open handle holds up.
	LookAgain time.Duration
	// wake is a callback for Windows that does nothing; that it was called wakes the thread that watches.
	wake uintptr
}

// NewChanges is called once in a process: each call takes one of the two thousand callbacks that Go can give to Windows.
func NewChanges() *Changes {
	return &Changes{LookAgain: 2 * time.Second, wake: windows.NewCallback(func(uintptr) uintptr { return 0 })}
}

// Watch sends a message when one of the services changed, several changes in a short while with one, until ctx is done; then
// it closes the channel. Services need not be there. It is the daemon's port for changes.
//
// The SCM sends its notices (NotifyServiceStatusChange) to the thread that asked for them while it waits, so one thread is
// taken until ctx is done. A notice only wakes it: what changed it sees by itself, so that none can be missed.
//
// The SCM tells nothing of declarations. They are in the registry, which signals edits of a service's key.
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

// run watches until ctx is done. ready is closed when every service was seen once.
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
	windows.SleepEx(0, true) // takes notices that were under way
	runtime.KeepAlive(w.services)
	w.free()
	close(w.changes)
}

// free gives back what Watch made.
func (w *watcher) free() {
	w.close()
	for _, s := range w.services {
		_ = windows.CloseHandle(s.edited)
	}
	_ = windows.CloseHandle(w.stop)
}

// reopen makes a new connection to the SCM, which sends nothing more to one that lags behind.
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

// noticed waits for a notice, an edit, the end of a process or of ctx, which is true, or for the time to look again.
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

// look looks at every service and asks to be told of the next change; it tells whether something changed.
func (w *watcher) look() (changed bool) {
	for _, s := range w.services {
		if s.look(w.Manager, w.wake) {
			changed = true
		}
	}
	return changed
}
