package settings

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/join"
)

// RenderGroup are what joins read of the cluster, twenty objects each time. A reading that began after a join asked says as much as one of
// the join's own; an older one may say what was wrong a moment ago, and is never used.
type RenderGroup struct {
	// turn holds an element while somebody reads, who alone touches what follows.
	turn   chan struct{}
	began  time.Time
	config v1alpha1.WindowsConfigSpec
	want   join.Want // is shared: nobody may change it
	err    error
}

// NewRenderGroup makes one for all joins of an operator.
func NewRenderGroup() *RenderGroup { return &RenderGroup{turn: make(chan struct{}, 1)} }

// Do returns what read does, or did for another join that asked for the same configuration. A reading begins no sooner than every
// after the one before, so that more of those who ask meanwhile share it.
func (r *RenderGroup) Do(
	ctx context.Context, config v1alpha1.WindowsConfigSpec, every time.Duration, read func(context.Context) (join.Want, error),
) (join.Want, error) {
	asked := time.Now()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return join.Want{}, ctx.Err()
	}
	if r.began.After(asked) && equality.Semantic.DeepEqual(r.config, config) {
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
		r.began = time.Time{} // that the reader had to stop says nothing about the cluster
	}
	return r.want, r.err
}
