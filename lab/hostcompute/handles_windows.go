package main

import (
	"sync"

	"github.com/windows-machine-config/wmco/lab/hcs"
)

// handles are what callers hold. The calls of a C library have no other way to what they work on, so there is one table.
var handles = table{open: map[uintptr]any{}}

type table struct {
	mu   sync.Mutex
	last uintptr
	open map[uintptr]any
}

func (t *table) add(to *uintptr, what any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.open[t.last] = what
	*to = t.last
}

func (t *table) remove(handle uintptr) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := t.open[handle]
	delete(t.open, handle)
	return what
}

// find returns what a handle is for, when it is of the right kind.
func find[T any](handle uintptr) (T, error) {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	what, ok := handles.open[handle].(T)
	if !ok {
		return what, hcs.InvalidHandle
	}
	return what, nil
}
