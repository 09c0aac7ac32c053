package configure

import (
	"context"
	"maps"
	"slices"
)

// environment is that of the machine: its variables.
type environment struct {
	work
	values map[string]string
	// watched are those that are removed where they have no value.
	watched []string
}

// set gives the machine its variables. Services have them in declarations of their own: they need no restart
// of Windows to see them.
func (e environment) set(ctx context.Context) error {
	changed, err := e.Environment.Set(ctx, e.values, e.watched)
	for _, name := range changed {
		e.recordChange("variable %s of the machine changed", name)
	}
	return err
}

// clear removes the variables that are ours, those that were declared so and those that we gave a value.
func (e environment) clear(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(e.values))
	for _, name := range e.watched {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	changed, err := e.Environment.Set(ctx, nil, names)
	for _, name := range changed {
		e.recordChange("variable %s of the machine removed", name)
	}
	return err
}
