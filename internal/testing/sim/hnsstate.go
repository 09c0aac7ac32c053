package sim

import (
	"context"
	"fmt"
	"maps"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// hnsState accesses the values of the Host Network Service in the registry.
type hnsState struct{ boot *boot }

// Get implements hostapi.HNSState.
func (s hnsState) Get(ctx context.Context, name string) (number uint32, err error) {
	err = s.use(ctx, func(all map[string]uint32) error {
		got, found := all[name]
		if number = got; !found {
			return fmt.Errorf("value %s: %w", name, hostapi.ErrNotFound)
		}
		return nil
	})
	return number, err
}

// Set implements hostapi.HNSState.
func (s hnsState) Set(ctx context.Context, name string, number uint32) error {
	return s.use(ctx, func(all map[string]uint32) error {
		if s.boot.w.features[desired.ContainersFeature] != wicdapi.FeatureEnabled {
			return fmt.Errorf("the key of service hns: %w", hostapi.ErrNotFound)
		}
		if err := s.boot.changeLocked("hns value " + name); err != nil {
			return err
		}
		all[name] = number
		return nil
	})
}

// Remove implements hostapi.HNSState.
func (s hnsState) Remove(ctx context.Context, name string) error {
	return s.use(ctx, func(all map[string]uint32) error {
		if _, found := all[name]; !found {
			return nil
		}
		if err := s.boot.changeLocked("hns value " + name); err != nil {
			return err
		}
		delete(all, name)
		return nil
	})
}

func (s hnsState) use(ctx context.Context, use func(map[string]uint32) error) error {
	if err := s.boot.lock(ctx); err != nil {
		return err
	}
	defer s.boot.w.mu.Unlock()
	return use(s.boot.w.hnsNumbers)
}

// EditHNSState changes the values of the Host Network Service in the registry, like an administrator.
func (w *Windows) EditHNSState(edit func(map[string]uint32)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit(w.hnsNumbers)
}

// HNSState returns the values of the Host Network Service in the registry.
func (w *Windows) HNSState() map[string]uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.hnsNumbers)
}
