package sim

import (
	"context"
	"slices"
	"sync"
)

// watches are the channels of Watch calls, each with the names that it watches; nil for all.
type watches map[chan struct{}][]string

// add returns a channel that gets messages until ctx ends. The caller holds the lock.
func (w watches) add(ctx context.Context, lock sync.Locker, names []string) <-chan struct{} {
	changes := make(chan struct{}, 1)
	w[changes] = names
	context.AfterFunc(ctx, func() {
		lock.Lock()
		defer lock.Unlock()
		delete(w, changes)
		close(changes)
	})
	return changes
}

// notify sends a message to those that watch a name. The caller holds the lock.
func (w watches) notify(name string) {
	for changes, names := range w {
		if names != nil && !slices.Contains(names, name) {
			continue
		}
		select {
		case changes <- struct{}{}:
		default: // a message is already pending
		}
	}
}
