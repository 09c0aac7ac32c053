// Package hns is what the lab has for Windows' Host Network Service: networks, endpoints, namespaces, load balancers
// and routes of a host, as files that all processes of the host share. It keeps what it is told and moves no packet;
// the addresses of endpoints are given to the host by its keeper. computenetwork.dll answers the calls of Windows' API
// from it (see package hostcompute).
package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Kind is a kind of object, as the calls of Windows' API name it.
type Kind string

// The kinds.
const (
	Network      Kind = "Network"
	Endpoint     Kind = "Endpoint"
	Namespace    Kind = "Namespace"
	LoadBalancer Kind = "LoadBalancer"
	Route        Kind = "SdnRoute"
)

// Object is the JSON of an object. It has an "ID".
type Object map[string]any

// Errors of the calls.
var (
	ErrNotFound = errors.New("no such object")
	ErrInvalid  = errors.New("invalid settings")
)

// Store is the folder with all objects. Any number of processes may use it.
type Store struct {
	// Dir is the folder.
	Dir string
	// Changed, when set, is called after the endpoints changed, before the call that did it returns.
	Changed func() error
}

// Create makes an object with an ID, or replaces the one that has it.
func (s Store) Create(k Kind, id string, settings []byte) (Object, error) {
	var o Object
	if err := json.Unmarshal(settings, &o); err != nil || o == nil {
		return nil, fmt.Errorf("creating %s %s: %w: %v", k, id, ErrInvalid, err)
	}
	o["ID"] = id
	err := s.locked(func() error {
		if err := s.complete(k, o); err != nil {
			return err
		}
		return s.write(k, o)
	})
	if err != nil {
		return nil, fmt.Errorf("creating %s %s: %w", k, id, err)
	}
	return o, s.tell(k)
}

// complete adds what Windows adds.
func (s Store) complete(k Kind, o Object) error {
	switch k {
	case Endpoint:
		if _, err := s.read(Network, o.text("HostComputeNetwork")); err != nil {
			return fmt.Errorf("its network: %w", err)
		}
		if o.text("MacAddress") == "" {
			hex := strings.ReplaceAll(o.id(), "-", "")
			o["MacAddress"] = fmt.Sprintf("00-15-5D-%s-%s-%s", hex[0:2], hex[2:4], hex[4:6])
		}
	case Namespace:
		taken := 0
		all, err := s.all(Namespace)
		if err != nil {
			return err
		}
		for _, other := range all {
			number, _ := other["NamespaceId"].(float64)
			taken = max(taken, int(number))
		}
		o["NamespaceId"] = max(taken, 1) + 1 // 1 is the host's own compartment
	}
	return nil
}

// Get returns an object.
func (s Store) Get(k Kind, id string) (o Object, err error) {
	err = s.locked(func() (err error) {
		o, err = s.read(k, id)
		return err
	})
	return o, err
}

// List returns the objects that a query (a HostComputeQuery) asks for, ordered by ID: those whose fields are as in its
// filter, itself JSON in a string.
func (s Store) List(k Kind, query string) (found []Object, err error) {
	filter, err := parseFilter(query)
	if err != nil {
		return nil, err
	}
	err = s.locked(func() error {
		all, err := s.all(k)
		found = slices.DeleteFunc(all, func(o Object) bool { return !o.matches(filter) })
		return err
	})
	return found, err
}

func parseFilter(query string) (map[string]any, error) {
	var q struct{ Filter string }
	if query == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(query), &q); err != nil {
		return nil, fmt.Errorf("reading the query: %w: %v", ErrInvalid, err)
	}
	var filter map[string]any
	if q.Filter == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(q.Filter), &filter); err != nil {
		return nil, fmt.Errorf("reading the query's filter: %w: %v", ErrInvalid, err)
	}
	return filter, nil
}

func (o Object) matches(filter map[string]any) bool {
	for field, want := range filter {
		if !strings.EqualFold(fmt.Sprint(o[field]), fmt.Sprint(want)) {
			return false
		}
	}
	return true
}

// Modify changes an object as a request of Windows' API says.
func (s Store) Modify(k Kind, id string, request []byte) error {
	var r change
	if err := json.Unmarshal(request, &r); err != nil {
		return fmt.Errorf("modifying %s %s: %w: %v", k, id, ErrInvalid, err)
	}
	err := s.locked(func() error {
		o, err := s.read(k, id)
		if err != nil {
			return err
		}
		switch {
		case k == Namespace:
			return s.modifyNamespace(o, r)
		case r.RequestType == "": // the whole object, which is how load balancers are changed
			var whole Object
			if err := json.Unmarshal(request, &whole); err != nil {
				return fmt.Errorf("%w: %v", ErrInvalid, err)
			}
			whole["ID"] = o.id()
			return s.write(k, whole)
		}
		r.policies(o)
		return s.write(k, o)
	})
	if err != nil {
		return fmt.Errorf("modifying %s %s: %w", k, id, err)
	}
	return nil
}

// change is a request to modify an object.
type change struct {
	ResourceType, RequestType string
	Settings                  struct {
		Policies                []any
		EndpointId, ContainerId string
	}
}

// policies changes the policies of a network or an endpoint.
func (c change) policies(o Object) {
	was, _ := o["Policies"].([]any)
	among := func(p any) bool {
		return slices.ContainsFunc(c.Settings.Policies, func(q any) bool { return reflect.DeepEqual(p, q) })
	}
	switch c.RequestType {
	case "Add":
		o["Policies"] = append(was, c.Settings.Policies...)
	case "Remove":
		o["Policies"] = slices.DeleteFunc(was, among)
	case "Update", "Refresh":
		o["Policies"] = c.Settings.Policies
	}
}

// modifyNamespace adds an endpoint or a container to a namespace, or takes it out.
func (s Store) modifyNamespace(namespace Object, c change) error {
	resource := resourceOf("Container", c.Settings.ContainerId)
	if c.ResourceType == "Endpoint" {
		endpoint, err := s.read(Endpoint, c.Settings.EndpointId)
		if err != nil {
			return err
		}
		resource = resourceOf("Endpoint", endpoint.id())
		endpoint["HostComputeNamespace"] = namespace.id()
		if c.RequestType == "Remove" {
			delete(endpoint, "HostComputeNamespace")
		}
		if err := s.write(Endpoint, endpoint); err != nil {
			return err
		}
	}
	namespace.drop(resource)
	if c.RequestType == "Add" {
		have, _ := namespace["Resources"].([]any)
		namespace["Resources"] = append(have, resource)
	}
	return s.write(Namespace, namespace)
}

func resourceOf(kind, id string) map[string]any {
	return map[string]any{"Type": kind, "Data": map[string]any{"ID": id}}
}

// drop takes a resource out of a namespace.
func (o Object) drop(resource map[string]any) {
	have, _ := o["Resources"].([]any)
	o["Resources"] = slices.DeleteFunc(have, func(r any) bool { return reflect.DeepEqual(r, any(resource)) })
}

// Delete removes an object, and an endpoint out of its namespace.
func (s Store) Delete(k Kind, id string) error {
	err := s.locked(func() error {
		o, err := s.read(k, id)
		if err != nil {
			return err
		}
		if namespace, err := s.read(Namespace, o.text("HostComputeNamespace")); k == Endpoint && err == nil {
			namespace.drop(resourceOf("Endpoint", o.id()))
			if err := s.write(Namespace, namespace); err != nil {
				return err
			}
		}
		return os.Remove(s.path(k, o.id()))
	})
	if err != nil {
		return fmt.Errorf("deleting %s %s: %w", k, id, err)
	}
	return s.tell(k)
}

// nonPersistent is the flag of networks that do not outlive a boot (NetworkFlags EnableNonPersistent).
const nonPersistent = 8

// Forget removes what Windows does not keep over a boot: everything but persistent networks. No process of the host may run.
func (s Store) Forget() error {
	var failures error
	for _, k := range []Kind{Endpoint, Namespace, LoadBalancer, Route} {
		failures = errors.Join(failures, os.RemoveAll(filepath.Join(s.Dir, string(k))))
	}
	networks, err := s.all(Network)
	for _, n := range networks {
		if flags, _ := n["Flags"].(float64); int(flags)&nonPersistent != 0 {
			failures = errors.Join(failures, os.Remove(s.path(Network, n.id())))
		}
	}
	return errors.Join(failures, err)
}

// Addresses are the addresses of all endpoints that are of this host.
func (s Store) Addresses() (addresses []string, err error) {
	err = s.locked(func() error {
		all, err := s.all(Endpoint)
		for _, e := range all {
			if flags, _ := e["Flags"].(float64); int(flags)&remoteEndpoint == 0 {
				addresses = append(addresses, e.addresses()...)
			}
		}
		return err
	})
	return addresses, err
}

// remoteEndpoint is the flag of endpoints that stand for those of other hosts.
const remoteEndpoint = 1

func (o Object) addresses() []string {
	var of struct{ IpConfigurations []struct{ IpAddress string } }
	o.into(&of)
	var list []string
	for _, c := range of.IpConfigurations {
		if c.IpAddress != "" {
			list = append(list, c.IpAddress)
		}
	}
	return list
}

// into reads some fields of an object, which are what they are when it has them.
func (o Object) into(fields any) {
	raw, err := json.Marshal(o)
	if err == nil {
		_ = json.Unmarshal(raw, fields)
	}
}

func (o Object) id() string { return o.text("ID") }

func (o Object) text(field string) string {
	text, _ := o[field].(string)
	return text
}

func (s Store) tell(k Kind) error {
	if k != Endpoint || s.Changed == nil {
		return nil
	}
	return s.Changed()
}

// locked runs a function while no other process of the host uses the store.
func (s Store) locked(do func() error) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of networks: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("opening the lock of networks: %w", err)
	}
	defer file.Close() // which unlocks
	if err := lock(file); err != nil {
		return fmt.Errorf("locking the networks: %w", err)
	}
	return do()
}

func (s Store) path(k Kind, id string) string {
	return filepath.Join(s.Dir, string(k), strings.ToUpper(id)+".json")
}

func (s Store) read(k Kind, id string) (Object, error) {
	var o Object
	raw, err := os.ReadFile(s.path(k, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s %q: %w", k, id, ErrNotFound)
	}
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", k, id, err)
	}
	return o, nil
}

func (s Store) write(k Kind, o Object) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", k, o.id(), err)
	}
	path := s.path(k, o.id())
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of %s: %w", k, err)
	}
	if err := os.WriteFile(path+".new", raw, 0o644); err != nil {
		return fmt.Errorf("writing %s %s: %w", k, o.id(), err)
	}
	return os.Rename(path+".new", path)
}

func (s Store) all(k Kind) ([]Object, error) {
	paths, err := filepath.Glob(filepath.Join(s.Dir, string(k), "*.json"))
	if err != nil {
		return nil, err
	}
	found := map[string]Object{}
	for _, path := range paths {
		o, err := s.read(k, strings.TrimSuffix(filepath.Base(path), ".json"))
		if err != nil {
			return nil, err
		}
		found[o.id()] = o
	}
	var list []Object
	for _, id := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[id])
	}
	return list, nil
}
