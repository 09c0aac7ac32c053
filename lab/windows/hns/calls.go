package hns

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Create creates an object with an ID. The returned object has another ID if it is the only namespace HostDefault.
func (s *Store) Create(k Kind, id string, settings []byte) (created Object, err error) {
	o, err := parse(settings)
	if err != nil {
		return nil, fmt.Errorf("creating %s %s: %w", k, id, err)
	}
	o["ID"] = id
	err = s.change(func(now *state) error {
		if k == Namespace && strings.EqualFold(o.text("Type"), "HostDefault") {
			created, err = now.get(k, hostDefaultID)
			return err
		}
		if now.objects[k][Key(id)] != nil {
			return Exists
		}
		created = o
		if err := s.complete(now, k, o); err != nil {
			return err
		}
		s.put(k, o)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("creating %s %s: %w", k, id, err)
	}
	return created, nil
}

// complete adds the fields that Windows adds, and rejects what Windows rejects.
func (s *Store) complete(now *state, k Kind, o Object) error {
	switch k {
	case Network:
		return s.completeNetwork(now, o)
	case Endpoint:
		return now.completeEndpoint(o)
	case LoadBalancer:
		return now.checkLoadBalancer(o)
	case Namespace:
		taken := 1 // the host's own compartment
		for _, other := range now.objects[Namespace] {
			taken = max(taken, other.number("NamespaceId"))
		}
		o["NamespaceId"] = float64(taken + 1)
	}
	return nil
}

// Get returns an object.
func (s *Store) Get(k Kind, id string) (o Object, err error) {
	err = s.view(func(now *state) error {
		found, err := now.get(k, id)
		o = found.clone()
		return err
	})
	return o, err
}

// Exists returns nil if the object exists, or Windows' error.
func (s *Store) Exists(k Kind, id string) error {
	return s.view(func(now *state) error {
		_, err := now.get(k, id)
		return err
	})
}

// Properties returns an object as JSON.
func (s *Store) Properties(k Kind, id string) (document string, err error) {
	err = s.view(func(now *state) error {
		o, err := now.get(k, id)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(echo(now.quirks, k, o))
		document = string(raw)
		return err
	})
	return document, err
}

// List returns the objects that match a query (HostComputeQuery), sorted by ID: those with the fields of its filter, which is JSON in a string. The
// caller must not change them.
func (s *Store) List(k Kind, query string) (found []Object, err error) {
	err = s.find(k, query, func(o Object) { found = append(found, o) })
	return found, err
}

// IDs returns the IDs of the objects that List returns, as the service lists them.
func (s *Store) IDs(k Kind, query string) (ids []string, err error) {
	if err := s.find(k, query, func(o Object) { ids = append(ids, o.id()) }); err != nil {
		return nil, err
	}
	return s.listed(k, ids)
}

func (s *Store) find(k Kind, query string, found func(Object)) error {
	filter, err := parseFilter(query)
	if err != nil {
		return err
	}
	return s.view(func(now *state) error {
		for _, o := range now.list(k, filter) {
			found(o)
		}
		return nil
	})
}

// Modify changes an object with a request of Windows' API.
func (s *Store) Modify(k Kind, id string, request []byte) error {
	var r request2
	if err := json.Unmarshal(request, &r); err != nil {
		return fmt.Errorf("modifying %s %s: %w: %w", k, id, InvalidJSON, err)
	}
	err := s.change(func(now *state) error {
		before, err := now.get(k, id)
		if err != nil {
			return err
		}
		switch k {
		case Namespace:
			return s.modifyNamespace(now, before.clone(), r)
		case LoadBalancer: // the request is the whole object
			replacement, err := parse(request)
			if err != nil {
				return err
			}
			replacement["ID"] = before.id()
			if err := s.complete(now, k, replacement); err != nil {
				return err
			}
			s.put(k, replacement)
			return nil
		}
		if now.rejects(k, r) {
			return Unsupported
		}
		o := before.clone()
		if err := r.policies(o, now.quirks); err != nil {
			return err
		}
		if k == Endpoint {
			if err := o.completeACLs(); err != nil {
				return err
			}
		}
		s.put(k, o)
		return nil
	})
	if err != nil {
		return fmt.Errorf("modifying %s %s: %w", k, id, err)
	}
	return nil
}

// request2 is a request of the second generation of the API to modify an object.
type request2 struct {
	ResourceType, RequestType string
	Settings                  struct {
		Policies                []any
		EndpointId, ContainerId string
	}
}

// Delete removes an object: an endpoint with its entry in a namespace, and a network with its endpoints.
func (s *Store) Delete(k Kind, id string) error {
	err := s.change(func(now *state) error {
		o, err := now.get(k, id)
		if err != nil {
			return err
		}
		switch {
		case k == Endpoint:
			s.leaveNamespace(now, o)
			s.keepStale(now, o)
		case k == Network:
			for _, e := range now.list(Endpoint, map[string]any{"HostComputeNetwork": o.id()}) {
				s.leaveNamespace(now, e)
				s.remove(Endpoint, e.id())
			}
		case k == Namespace && Key(o.id()) == hostDefaultID:
			return AccessDenied
		case k == Namespace:
			for _, e := range now.list(Endpoint, map[string]any{"HostComputeNamespace": o.id()}) {
				free := e.clone()
				delete(free, "HostComputeNamespace")
				s.put(Endpoint, free)
			}
		}
		s.remove(k, o.id())
		return nil
	})
	if err != nil {
		return fmt.Errorf("deleting %s %s: %w", k, id, err)
	}
	return nil
}

// nonPersistent is the flag of networks that do not survive a boot (NetworkFlags EnableNonPersistent).
const nonPersistent = 8

// Forget removes everything that does not survive a boot: all except persistent networks, the host's own compartment and Quirks, and
// every Fault. No process of the host may run.
func (s *Store) Forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	return s.locked(func() error {
		if err := s.updateLocked(); err != nil {
			return err
		}
		kept := []entry{hostDefault()}
		for _, q := range s.known.list(quirks, nil) {
			kept = append(kept, entry{quirks, quirksID, q})
		}
		for _, n := range s.known.list(Network, nil) {
			if n.number("Flags")&nonPersistent == 0 {
				kept = append(kept, entry{Network, Key(n.id()), n})
			}
		}
		return s.start(kept)
	})
}

// Lose removes all objects of some kinds without a notification, as if the service had restarted without them. The host's own
// compartment remains.
func (s *Store) Lose(kinds ...Kind) error {
	return s.change(func(now *state) error {
		for _, k := range kinds {
			for _, o := range now.list(k, nil) {
				if Key(o.id()) != hostDefaultID {
					s.remove(k, o.id())
				}
			}
		}
		return nil
	})
}

// LoseOne removes one object without a notification. References to it remain.
func (s *Store) LoseOne(k Kind, id string) error {
	return s.change(func(now *state) error {
		if _, err := now.get(k, id); err != nil {
			return err
		}
		s.remove(k, id)
		return nil
	})
}

// Addresses returns the addresses of all local endpoints, by their namespace: "" is the host's.
func (s *Store) Addresses() (byNamespace map[string][]string, err error) {
	byNamespace = map[string][]string{}
	err = s.view(func(now *state) error {
		for _, e := range now.list(Endpoint, nil) {
			in := e.compartment()
			byNamespace[in] = append(byNamespace[in], e.ownAddresses()...)
		}
		return nil
	})
	return byNamespace, err
}
