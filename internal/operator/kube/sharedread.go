package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
)

// SharedRead shares reads of the API server among concurrent callers. A read that began after a caller requested it is as good as the caller's own;
// an older one may be stale, and is never used.
type SharedRead[Key, Value any] struct {
	// turn holds an element during a read; its sender has exclusive access to the fields below.
	turn  chan struct{}
	began time.Time
	key   Key
	value Value // shared: must not be changed
	err   error
}

// NewSharedRead returns a SharedRead for all callers.
func NewSharedRead[Key, Value any]() *SharedRead[Key, Value] {
	return &SharedRead[Key, Value]{turn: make(chan struct{}, 1)}
}

// Do returns the result of read, or that of another caller's read for the same key. A read begins no sooner than every after the one before, so that
// more callers share it.
func (r *SharedRead[Key, Value]) Do(ctx context.Context, key Key, every time.Duration, read func(context.Context) (Value, error)) (none Value, err error) {
	requested := time.Now()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	if r.began.After(requested) && equality.Semantic.DeepEqual(r.key, key) {
		return r.value, r.err
	}
	if wait := every - time.Since(r.began); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
	r.began, r.key = time.Now(), key
	r.value, r.err = read(ctx)
	if ctx.Err() != nil {
		r.began = time.Time{} // a canceled read reveals nothing about the cluster
	}
	return r.value, r.err
}
