package configure

import (
	"context"
	"maps"
	"slices"
)

// environment manages the machine's environment variables.
type environment struct {
	work
	values map[string]string
	// watched are the variables that are removed when they have no value.
	watched []string
}

// set sets the machine's variables. Services have them in their own declarations, so Windows need not restart for services to see them.
func (e environment) set(ctx context.Context) error {
	changed, err := e.Environment.Set(ctx, e.values, e.watched)
	for _, name := range changed {
		e.recordChange("variable %s of the machine changed", name)
	}
	return err
}

// clear removes the operator's variables: the watched ones and those with a value.
func (e environment) clear(ctx context.Context) error {
	names := slices.AppendSeq(slices.Clone(e.watched), maps.Keys(e.values))
	slices.Sort(names)
	names = slices.Compact(names)
	changed, err := e.Environment.Set(ctx, nil, names)
	for _, name := range changed {
		e.recordChange("variable %s of the machine removed", name)
	}
	return err
}
