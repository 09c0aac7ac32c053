package desired

import (
	"fmt"
	"slices"
	"strings"
)

// Order sorts services so that each comes after those it depends on, otherwise in the declared order. It returns an error that names the
// services for which there is no such order.
func Order(services []Service) ([]Service, error) {
	var sorted []Service
	rest := slices.Clone(services)
	for len(rest) > 0 {
		next := slices.IndexFunc(rest, func(s Service) bool { return dependsOnlyOn(s, sorted) })
		if next < 0 {
			return nil, fmt.Errorf("services %s cannot start: they depend on each other, or on services that are not declared", strings.Join(NamesOf(rest), ", "))
		}
		sorted = append(sorted, rest[next])
		rest = slices.Delete(rest, next, next+1)
	}
	return sorted, nil
}

func dependsOnlyOn(s Service, others []Service) bool {
	return !slices.ContainsFunc(s.DependsOn, func(name string) bool { return !slices.Contains(NamesOf(others), name) })
}

// NamesOf returns the names of services, in their order.
func NamesOf(services []Service) []string {
	var names []string
	for _, s := range services {
		names = append(names, s.Name)
	}
	return names
}
