package main

import (
	"sync"

	"github.com/windows-machine-config/wmco/lab/windows/hcs"
)

// handles are the handles of all callers. Calls of a C library have no receiver, so there is one table.
var handles = table{open: map[uintptr]any{}}

type table struct {
	mu   sync.Mutex
	last uintptr
	open map[uintptr]any
}

func (t *table) add(to *uintptr, object any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.open[t.last] = object
	*to = t.last
}

func (t *table) remove(handle uintptr) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	object := t.open[handle]
	delete(t.open, handle)
	return object
}

// find returns the object of a handle if it is of the right kind.
func find[T any](handle uintptr) (T, error) {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	found, ok := handles.open[handle].(T)
	if !ok {
		return found, hcs.InvalidHandle
	}
	return found, nil
}
