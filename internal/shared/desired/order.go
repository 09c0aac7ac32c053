package desired

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
)

// Order sorts services so that each comes after those it depends on, otherwise in the declared order. It returns an
// error for services that cannot be started in any order. The error names everything that is wrong in the whole graph.
func Order(services []Service) ([]Service, error) {
	if err := errors.Join(checkNames(services), checkReady(services)); err != nil {
		return nil, err
	}
	var arranged []Service
	rest := slices.Clone(services)
	for len(rest) > 0 {
		next := slices.IndexFunc(rest, func(s Service) bool { return !dependsOnAny(s, rest) })
		if next < 0 {
			return nil, cycles(rest)
		}
		arranged = append(arranged, rest[next])
		rest = slices.Delete(rest, next, next+1)
	}
	return arranged, nil
}

func dependsOnAny(s Service, others []Service) bool {
	return slices.ContainsFunc(others, func(o Service) bool { return slices.Contains(s.DependsOn, o.Name) })
}

// checkNames rejects names that differ only in case, which Windows ignores, and dependencies on WICD or on services
// that are not declared.
func checkNames(services []Service) error {
	var errs []error
	for i, s := range services {
		for _, other := range services[:i] {
			if strings.EqualFold(other.Name, s.Name) {
				errs = append(errs, fmt.Errorf("services %q and %q have the same name for Windows, which ignores case: remove one of them", other.Name, s.Name))
			}
		}
		for _, name := range s.DependsOn {
			if name == api.WICDService {
				errs = append(errs, fmt.Errorf("service %q depends on %q, which manages it and must be able to stop: remove the dependency", s.Name, name))
			}
			if !slices.ContainsFunc(services, func(o Service) bool { return o.Name == name }) {
				errs = append(errs, fmt.Errorf("service %q depends on %q, which is not declared; allowed are %q", s.Name, name, NamesOf(services)))
			}
		}
	}
	return errors.Join(errs...)
}

// checkReady rejects addresses that cannot be probed or are not on the host.
func checkReady(services []Service) error {
	var errs []error
	for _, s := range services {
		u, err := url.Parse(s.Ready)
		isPipe := err == nil && u.Scheme == "npipe" && u.Host == "." && strings.HasPrefix(u.Path, "/pipe/")
		isHTTP := err == nil && u.Scheme == "http" && u.Hostname() == "127.0.0.1"
		if s.Ready != "" && !isPipe && !isHTTP {
			errs = append(errs, fmt.Errorf("service %q has readiness probe %q; allowed are http://127.0.0.1:<port>/<path> and npipe://./pipe/<name>", s.Name, s.Ready))
		}
	}
	return errors.Join(errs...)
}

// cycles returns an error that names the cycles among services: one for each dependency that closes a cycle.
func cycles(services []Service) error {
	dependencies := map[string][]string{}
	for _, s := range services {
		dependencies[s.Name] = s.DependsOn
	}
	var errs []error
	done := map[string]bool{}
	var visit func(name string, way []string)
	visit = func(name string, way []string) {
		if start := slices.Index(way, name); start >= 0 {
			circle := strings.Join(way[start:], " needs ") + " needs " + name
			errs = append(errs, fmt.Errorf("services depend on each other: %s; remove one of the dependencies", circle))
			return
		}
		if done[name] {
			return
		}
		for _, dependency := range dependencies[name] {
			visit(dependency, append(slices.Clone(way), name))
		}
		done[name] = true
	}
	for _, s := range services {
		visit(s.Name, nil)
	}
	return errors.Join(errs...)
}

// NamesOf returns the names of services, in their order.
func NamesOf(services []Service) []string {
	var names []string
	for _, s := range services {
		names = append(names, s.Name)
	}
	return names
}
