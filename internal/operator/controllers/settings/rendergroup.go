package settings

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// RenderGroup shares reads of the cluster among joins, each of twenty objects. A read that began after a join requested it is as good as the join's
// own; an older one may contain what has changed since, and is never used.
type RenderGroup struct {
	// turn holds an element during a read; its sender has exclusive access to the fields below.
	turn   chan struct{}
	began  time.Time
	config v1alpha1.WindowsConfigSpec
	want   join.Want // shared: must not be changed
	err    error
}

// NewRenderGroup returns a RenderGroup for all joins of an operator.
func NewRenderGroup() *RenderGroup { return &RenderGroup{turn: make(chan struct{}, 1)} }

// Do returns the result of read, or that of another join's read for the same configuration. A read begins no sooner than every after the one before,
// so that more joins share it.
func (r *RenderGroup) Do(
	ctx context.Context, config v1alpha1.WindowsConfigSpec, every time.Duration, read func(context.Context) (join.Want, error),
) (join.Want, error) {
	requested := time.Now()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return join.Want{}, ctx.Err()
	}
	if r.began.After(requested) && equality.Semantic.DeepEqual(r.config, config) {
		return r.want, r.err
	}
	if wait := every - time.Since(r.began); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return join.Want{}, ctx.Err()
		}
	}
	r.began, r.config = time.Now(), config
	r.want, r.err = read(ctx)
	if ctx.Err() != nil {
		r.began = time.Time{} // a canceled read reveals nothing about the cluster
	}
	return r.want, r.err
}
