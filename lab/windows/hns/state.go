package hns

import (
	"fmt"
	"maps"
	"slices"
)

// state has all objects in memory, with indexes. Objects in it are not changed: a change replaces them.
type state struct {
	mark
	objects map[Kind]map[string]Object
	// frontends finds the load balancer of an address, port and protocol.
	frontends map[string]string
	// addresses finds the endpoints of an address on a network. A local one and a remote one can share an address.
	addresses map[string][]string
	quirks    Quirks
}

func newState() state {
	return state{objects: map[Kind]map[string]Object{}, frontends: map[string]string{}, addresses: map[string][]string{}}
}

func (s *state) apply(e entry) {
	if s.objects[e.Kind] == nil {
		s.objects[e.Kind] = map[string]Object{}
	}
	if e.Kind == quirks {
		s.quirks = Quirks{}
		_ = e.Object.Into(&s.quirks)
	}
	if before := s.objects[e.Kind][e.ID]; before != nil {
		s.unindex(e.Kind, e.ID, before)
	}
	if e.Object == nil {
		delete(s.objects[e.Kind], e.ID)
		return
	}
	s.objects[e.Kind][e.ID] = e.Object
	for _, f := range e.Object.frontends(e.Kind) {
		s.frontends[f] = e.ID
	}
	for _, a := range e.Object.places(e.Kind) {
		s.addresses[a] = append(s.addresses[a], e.ID)
	}
}

func (s *state) unindex(k Kind, id string, before Object) {
	for _, f := range before.frontends(k) {
		if s.frontends[f] == id {
			delete(s.frontends, f)
		}
	}
	for _, a := range before.places(k) {
		left := slices.DeleteFunc(s.addresses[a], func(other string) bool { return other == id })
		if s.addresses[a] = left; len(left) == 0 {
			delete(s.addresses, a)
		}
	}
}

// entries returns the lines of a journal with only the current objects.
func (s *state) entries() []entry {
	var list []entry
	for _, k := range []Kind{Network, Endpoint, Namespace, LoadBalancer, fault, quirks, stale} {
		for _, id := range slices.Sorted(maps.Keys(s.objects[k])) {
			list = append(list, entry{k, id, s.objects[k][id]})
		}
	}
	return list
}

// get returns an object, which the caller must not change.
func (s *state) get(k Kind, id string) (Object, error) {
	if o := s.objects[k][Key(id)]; o != nil {
		return o, nil
	}
	return nil, fmt.Errorf("%s %q: %w", k, id, k.missing())
}

// list returns the objects that match a filter, sorted by ID.
func (s *state) list(k Kind, filter map[string]any) []Object {
	if id, only := filter["ID"].(string); only && len(filter) == 1 {
		if o := s.objects[k][Key(id)]; o != nil {
			return []Object{o}
		}
		return nil
	}
	var found []Object
	for _, id := range slices.Sorted(maps.Keys(s.objects[k])) {
		if o := s.objects[k][id]; o.matches(filter) {
			found = append(found, o)
		}
	}
	return found
}

// hostDefaultID is the namespace of the host's own compartment, which always exists.
const hostDefaultID = "0A0B0C0D-0000-4000-8000-00000000DEF0"

func hostDefault() entry {
	return entry{Namespace, hostDefaultID, Object{
		"ID": hostDefaultID, "Type": "HostDefault", "NamespaceId": 1.0, "SchemaVersion": map[string]any{"Major": 2.0, "Minor": 0.0},
	}}
}
