package configure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// hnsStateFile records the former number of each value of the Host Network Service that WICD set. Other values are never changed.
const hnsStateFile = desired.State + `\hns-state.json`

// hnsValue is a registry value that changes the behavior of the Host Network Service.
type hnsValue struct {
	name   string
	number uint32
	// needed means that the host must not become a node without the value.
	needed bool
}

const (
	// compartmentNamespace lets pods with a group managed service account reach file shares by name.
	compartmentNamespace = "EnableCompartmentNamespace"
	// deviceLess preserves a static address: without it, the first network gives the host a virtual adapter that uses DHCP. The value is from the
	// original operator's prerequisites:
	// https://github.com/openshift/windows-machine-config-operator/blob/master/docs/byoh-instance-pre-requisites.md
	deviceLess = "DeviceLessNicDisabled"
)

// hnsValuesOf returns the values that a host needs.
func hnsValuesOf(keepsStatic bool) []hnsValue {
	values := []hnsValue{{name: compartmentNamespace, number: 1}} // decision 40
	if keepsStatic {
		values = append(values, hnsValue{name: deviceLess, number: 1, needed: true})
	}
	return values
}

// hnsState manages the operator's values of the Host Network Service in the registry.
type hnsState struct {
	work
	wanted []hnsValue
}

// hnsNote is an entry of hnsStateFile: the number that WICD set, and the former one; nil when the value was absent.
type hnsNote struct {
	Set    uint32  `json:"set"`
	Before *uint32 `json:"before,omitempty"`
}

// set sets the wanted values, restores those that are no longer wanted, and returns the names of the values that it set. It does not notify the
// Host Network Service.
func (s hnsState) set(ctx context.Context) (changed []string, err error) {
	notes, err := s.notes()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		if !slices.ContainsFunc(s.wanted, func(v hnsValue) bool { return v.name == name }) {
			if err := s.restoreOne(ctx, notes, name); err != nil {
				return nil, err
			}
		}
	}
	for _, v := range s.wanted {
		isChanged, err := s.setOne(ctx, notes, v)
		isMissing := errors.Is(err, hostapi.ErrNotFound) // Windows has no Host Network Service
		if err != nil && (v.needed && !isMissing || ctx.Err() != nil) {
			return changed, err
		}
		if err != nil {
			s.recordSkip("%v", err)
		}
		if isChanged {
			changed = append(changed, v.name)
		}
	}
	return changed, nil
}

// setOne records the former number, then sets the value: an interruption leaves a record of a value that has another number, which stays.
func (s hnsState) setOne(ctx context.Context, notes map[string]hnsNote, v hnsValue) (changed bool, err error) {
	note := hnsNote{Set: v.number}
	current, err := s.HNSState.Get(ctx, v.name)
	switch {
	case err == nil && current == v.number:
		return false, nil
	case err == nil:
		note.Before = &current
	case !errors.Is(err, hostapi.ErrNotFound):
		return false, err
	}
	if former, wasSet := notes[v.name]; wasSet && (note.Before == nil || *note.Before == former.Set) {
		note.Before = former.Before
	}
	notes[v.name] = note
	if err := state.WriteJSON(s.Disk, hnsStateFile, notes); err != nil {
		return false, err
	}
	if err := s.HNSState.Set(ctx, v.name, v.number); err != nil {
		return false, err
	}
	s.recordChange("value %s of the Host Network Service set to %d", v.name, v.number)
	return true, nil
}

// restore gives all values that WICD set their former numbers.
func (s hnsState) restore(ctx context.Context) error {
	notes, err := s.notes()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		if err := s.restoreOne(ctx, notes, name); err != nil {
			if ctx.Err() != nil {
				return err
			}
			s.remains.note("%v", err)
		}
	}
	return nil
}

// restoreOne restores the former number, unless the value was changed since.
func (s hnsState) restoreOne(ctx context.Context, notes map[string]hnsNote, name string) error {
	note := notes[name]
	current, err := s.HNSState.Get(ctx, name)
	if err == nil && current == note.Set {
		if note.Before == nil {
			err = s.HNSState.Remove(ctx, name)
		} else {
			err = s.HNSState.Set(ctx, name, *note.Before)
		}
		if err == nil {
			s.recordChange("value %s of the Host Network Service restored", name)
		}
	}
	if err != nil && !errors.Is(err, hostapi.ErrNotFound) && !errors.Is(err, hostapi.ErrNoNumber) {
		return fmt.Errorf("restoring value %s of the Host Network Service: %w", name, err)
	}
	delete(notes, name)
	return state.WriteJSON(s.Disk, hnsStateFile, notes)
}

// notes reads hnsStateFile.
func (s hnsState) notes() (map[string]hnsNote, error) {
	notes, err := readRecorded[map[string]hnsNote](s.work, hnsStateFile, "values of the Host Network Service stay unchanged")
	if notes == nil {
		notes = map[string]hnsNote{}
	}
	return notes, err
}
