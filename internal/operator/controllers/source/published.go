package source

import (
	"context"
	"slices"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
)

// AddressesOf returns the addresses and DNS names in the status of an instance's Machine. They come from the cloud's API, and no host can write them. It
// returns nil for an instance that was not created from a Machine of this API, or whose Machine cannot be read.
func (s *machineSource) AddressesOf(ctx context.Context, i *v1alpha1.WindowsInstance) []string {
	place := s.place.Load()
	requests := s.requestsForInstance(ctx, i)
	if place == nil || len(requests) == 0 || requests[0].Namespace != place.namespace {
		return nil
	}
	object, err := s.read(ctx, place, requests[0].NamespacedName)
	if object == nil || err != nil {
		return nil
	}
	m, err := machines.Read(object)
	if err != nil || !m.Windows || !m.IsOf(place.cluster) || object.GetNamespace()+"/"+object.GetName() != i.Annotations[api.AnnotationMachine] {
		return nil
	}
	return slices.Concat(m.Addresses, m.Names, m.External)
}
