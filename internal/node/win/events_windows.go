package win

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Constants and errors of winevt.h and winerror.h that golang.org/x/sys lacks.
const (
	evtQueryChannelPath      = 0x1
	evtQueryReverseDirection = 0x200
	evtRenderEventXML        = 1
	evtFormatMessageEvent    = 1

	errChannelNotFound  = syscall.Errno(15007) // ERROR_EVT_CHANNEL_NOT_FOUND
	errUnresolvedInsert = syscall.Errno(15029) // ERROR_EVT_UNRESOLVED_VALUE_INSERT: the text is returned anyway
)

// eventLogs reads events with the Windows event API (wevtapi.dll, https://learn.microsoft.com/windows/win32/wes/windows-event-log), which calls
// service EventLog. The calls cannot be canceled: a read that outlasts its context continues in the background, and the next one waits for it.
type eventLogs struct {
	query, next, render, format, open, end *windows.LazyProc
	turn                                   chan struct{}
}

func newEventLogs() eventLogs {
	dll := windows.NewLazySystemDLL("wevtapi.dll")
	return eventLogs{
		query: dll.NewProc("EvtQuery"), next: dll.NewProc("EvtNext"), render: dll.NewProc("EvtRender"), format: dll.NewProc("EvtFormatMessage"),
		open: dll.NewProc("EvtOpenPublisherMetadata"), end: dll.NewProc("EvtClose"), turn: make(chan struct{}, 1),
	}
}

// Read implements hostapi.EventLogs.
func (l eventLogs) Read(ctx context.Context, channel string, after uint64, limit int) ([]hostapi.Event, error) {
	for _, p := range []*windows.LazyProc{l.query, l.next, l.render, l.format, l.open, l.end} {
		if err := p.Find(); err != nil {
			return nil, fmt.Errorf("reading events of %s: %w: %w", channel, errors.ErrUnsupported, err)
		}
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	type result struct {
		events []hostapi.Event
		err    error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-l.turn }()
		events, err := l.read(ctx, channel, after, limit)
		done <- result{events, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("reading events of %s: %w", channel, r.err)
		}
		return r.events, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read reads from the newest event back to the last known one.
func (l eventLogs) read(ctx context.Context, channel string, after uint64, limit int) ([]hostapi.Event, error) {
	path, err := windows.UTF16PtrFromString(channel)
	if err != nil {
		return nil, err
	}
	results, _, err := l.query.Call(0, uintptr(unsafe.Pointer(path)), 0, evtQueryChannelPath|evtQueryReverseDirection)
	switch {
	case results != 0:
	case errors.Is(err, errChannelNotFound):
		return nil, fmt.Errorf("%w: %w", hostapi.ErrNotFound, err)
	case errors.Is(err, windows.ERROR_CALL_NOT_IMPLEMENTED) || errors.Is(err, syscall.Errno(0)):
		return nil, fmt.Errorf("%w: EvtQuery returns nothing", errors.ErrUnsupported) // Wine
	default:
		return nil, err
	}
	defer l.close(results)
	r := eventReader{eventLogs: l, publishers: map[string]uintptr{}}
	defer r.release()
	var events []hostapi.Event
	for len(events) < limit && ctx.Err() == nil {
		batch, more, err := r.batch(results)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if len(events) == 0 && len(batch) > 0 && batch[0].Record < after {
			after = 0 // the log was cleared
		}
		known := slices.IndexFunc(batch, func(e hostapi.Event) bool { return e.Record <= after })
		if known >= 0 {
			events = append(events, batch[:known]...)
			break
		}
		events = append(events, batch...)
	}
	events = events[:min(len(events), limit)]
	slices.Reverse(events)
	return events, ctx.Err()
}

func (l eventLogs) close(handle uintptr) { _, _, _ = l.end.Call(handle) }

// eventReader renders events and keeps the metadata of their providers open.
type eventReader struct {
	eventLogs
	publishers map[string]uintptr
}

func (r eventReader) release() {
	for _, p := range r.publishers {
		if p != 0 {
			r.close(p)
		}
	}
}

// batch reads the next events; more is false if there are none. An event that cannot be read is omitted.
func (r eventReader) batch(results uintptr) (events []hostapi.Event, more bool, err error) {
	var handles [32]uintptr
	var count uint32
	const timeout = 5 * time.Second
	ok, _, err := r.next.Call(results, uintptr(len(handles)), uintptr(unsafe.Pointer(&handles[0])), uintptr(timeout.Milliseconds()), 0,
		uintptr(unsafe.Pointer(&count)))
	if ok == 0 && errors.Is(err, windows.ERROR_NO_MORE_ITEMS) {
		return nil, false, nil
	}
	if ok == 0 {
		return nil, false, err
	}
	for _, handle := range handles[:min(int(count), len(handles))] {
		if e, err := r.event(handle); err == nil {
			events = append(events, e)
		}
		r.close(handle)
	}
	return events, count > 0, nil
}

func (r eventReader) event(handle uintptr) (hostapi.Event, error) {
	text, err := grow(func(buffer []uint16, used *uint32) (uintptr, error) {
		var properties uint32
		ok, _, err := r.render.Call(0, handle, evtRenderEventXML, uintptr(2*len(buffer)), uintptr(unsafe.Pointer(&buffer[0])),
			uintptr(unsafe.Pointer(used)), uintptr(unsafe.Pointer(&properties)))
		*used = (*used + 1) / 2 // bytes
		return ok, err
	})
	if err != nil {
		return hostapi.Event{}, err
	}
	e, provider, err := parseEvent(text)
	if err != nil {
		return hostapi.Event{}, err
	}
	if message := r.message(handle, provider); message != "" {
		e.Message = message
	}
	return e, nil
}

// message returns the event's text in the language of Windows; empty if the provider has none.
func (r eventReader) message(handle uintptr, provider string) string {
	publisher, known := r.publishers[provider]
	if !known {
		if name, err := windows.UTF16PtrFromString(provider); err == nil {
			publisher, _, _ = r.open.Call(0, uintptr(unsafe.Pointer(name)), 0, 0, 0)
		}
		r.publishers[provider] = publisher
	}
	if publisher == 0 {
		return ""
	}
	text, err := grow(func(buffer []uint16, used *uint32) (uintptr, error) {
		ok, _, err := r.format.Call(publisher, handle, 0, 0, 0, evtFormatMessageEvent, uintptr(len(buffer)), uintptr(unsafe.Pointer(&buffer[0])),
			uintptr(unsafe.Pointer(used)))
		if ok == 0 && errors.Is(err, errUnresolvedInsert) && int(*used) <= len(buffer) {
			return 1, nil
		}
		return ok, err
	})
	if err != nil {
		return ""
	}
	return cutMessage(text)
}

// grow calls a function with a sufficiently large buffer. used is the required size in characters.
func grow(call func(buffer []uint16, used *uint32) (uintptr, error)) (string, error) {
	const most = 1 << 20
	buffer := make([]uint16, 4<<10)
	for {
		var used uint32
		ok, err := call(buffer, &used)
		if ok != 0 {
			return windows.UTF16ToString(buffer[:min(int(used), len(buffer))]), nil
		}
		if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) || int(used) <= len(buffer) || used > most {
			return "", err
		}
		buffer = make([]uint16, used)
	}
}
