package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// version returns the reported version: that of Windows Server 2022, which has all features that hcsshim knows.
func version() map[string]any { return map[string]any{"Major": 15, "Minor": 4} }

// Call handles a call of the first generation of Windows' API (HNSCall of vmcompute.dll): REST, with JSON as in hcsshim's internal/shared/hns. Both
// generations have the same objects. newID returns the ID of a new object.
func (s *Store) Call(method, path, body string, newID func() string) (answer string, err error) {
	c := oldCall{Store: s, method: method, path: strings.Split(strings.Trim(path, "/"), "/"), body: []byte(body), newID: newID, names: map[string]string{}}
	output, err := c.answer()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", method, path, err)
		return encode(map[string]any{"Success": false, "Error": err.Error(), "ErrorCode": CodeOf(err)}), err
	}
	return encode(map[string]any{"Success": true, "Output": output}), nil
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return `{"Success":false,"Error":"encoding the answer failed"}`
	}
	return string(raw)
}

// oldCall is one call of the first generation.
type oldCall struct {
	*Store
	method string
	path   []string
	body   []byte
	newID  func() string
	names  map[string]string // of networks, by ID
}

// id returns the object in the path, and verb the operation.
func (c oldCall) id() string { return c.part(1) }

func (c oldCall) verb() string { return c.part(2) }

func (c oldCall) part(n int) string {
	if len(c.path) <= n {
		return ""
	}
	return c.path[n]
}

func (c oldCall) answer() (any, error) {
	switch c.path[0] {
	case "globals":
		return version(), nil
	case "networks":
		return c.objects(Network, c.oldNetwork, newNetwork)
	case "endpoints":
		if c.verb() != "" {
			return c.endpointVerb()
		}
		return c.objects(Endpoint, c.oldEndpoint, newEndpoint)
	case "endpointstats":
		return c.statistics()
	case "policylists":
		return c.policyLists()
	case "namespaces":
		if c.verb() != "" {
			return c.namespaceVerb()
		}
		return c.objects(Namespace, oldNamespace, newNamespace)
	}
	return nil, Unsupported
}

// objects handles calls that are the same for most kinds. View converts an object to the first generation, read converts it back.
func (c oldCall) objects(k Kind, view func(Object) map[string]any, read func(Object) Object) (any, error) {
	switch id := c.id(); {
	case c.method == http.MethodGet && id == "":
		return c.list(k, view)
	case c.method == http.MethodGet:
		o, err := c.Get(k, id)
		if err != nil {
			return nil, err
		}
		q, _, err := c.quirksNow()
		return q.oldEcho(view(q.echo(k, o))), err
	case c.method == http.MethodDelete && id != "":
		return map[string]any{}, c.Delete(k, id)
	case c.method == http.MethodPost:
		return c.post(k, view, read)
	}
	return nil, Unsupported
}

// list returns all objects of a kind.
func (c oldCall) list(k Kind, view func(Object) map[string]any) ([]map[string]any, error) {
	q, _, err := c.quirksNow()
	if err != nil {
		return nil, err
	}
	all, err := c.List(k, "")
	if err != nil {
		return nil, err
	}
	views := []map[string]any{}
	for _, o := range all {
		views = append(views, view(q.echo(k, o)))
	}
	if views, err = c.oldListed(k, views); err != nil || k != Endpoint {
		return views, err
	}
	left, err := c.List(stale, "")
	for _, o := range left {
		views = append(views, q.oldEcho(view(o)))
	}
	return views, err
}

func (c oldCall) post(k Kind, view func(Object) map[string]any, read func(Object) Object) (any, error) {
	old := Object{}
	if len(c.body) > 0 {
		var err error
		if old, err = parse(c.body); err != nil {
			return nil, err
		}
	}
	if id := c.id(); id != "" { // a change: the given policies replace the old ones
		policies := newPolicies(old["Policies"])
		err := c.Modify(k, id, []byte(encode(map[string]any{"RequestType": "Update", "Settings": map[string]any{"Policies": policies}})))
		if err != nil {
			return nil, err
		}
		o, err := c.Get(k, id)
		return view(o), err
	}
	id := old.id()
	if id == "" {
		id = c.newID()
	}
	o, err := c.Create(k, id, []byte(encode(read(old))))
	if err != nil {
		return nil, err
	}
	return view(o.clone()), nil
}

func (c oldCall) statistics() (any, error) {
	o, err := c.Get(Endpoint, c.id())
	return map[string]any{"EndpointId": o.id(), "InstanceId": o.id()}, err
}

// endpointVerb attaches an endpoint to the host or a container, or detaches it.
func (c oldCall) endpointVerb() (any, error) {
	var r struct{ SystemType, ContainerId string }
	if len(c.body) > 0 {
		if err := json.Unmarshal(c.body, &r); err != nil {
			return nil, InvalidJSON
		}
	}
	change := map[string]any{"ResourceType": "Endpoint", "RequestType": "Add", "Settings": map[string]any{"EndpointId": c.id()}}
	switch c.verb() {
	case "stats":
		return c.statistics()
	case "detach":
		change["RequestType"] = "Remove"
	case "attach":
		o, err := c.Get(Endpoint, c.id())
		if err != nil {
			return nil, err
		}
		if o.text("HostComputeNamespace") != "" {
			return nil, AlreadyAttached
		}
	default:
		return nil, Unsupported
	}
	if r.SystemType != "Host" { // the namespace of a container is its compartment, which the second generation assigns
		return map[string]any{}, nil
	}
	return map[string]any{}, c.Modify(Namespace, hostDefaultID, []byte(encode(change)))
}

func (c oldCall) namespaceVerb() (any, error) {
	kinds := map[string]string{"addresource": "Add", "removeresource": "Remove"}
	var r struct {
		Type string
		Data struct{ Id string }
	}
	if err := json.Unmarshal(c.body, &r); err != nil || kinds[c.verb()] == "" {
		return nil, Unsupported
	}
	change := map[string]any{
		"ResourceType": r.Type, "RequestType": kinds[c.verb()], "Settings": map[string]any{r.Type + "Id": r.Data.Id},
	}
	if err := c.Modify(Namespace, c.id(), []byte(encode(change))); err != nil {
		return nil, err
	}
	o, err := c.Get(Namespace, c.id())
	return oldNamespace(o), err
}

// policyLists handles load balancers and routes, which are one collection in the first generation.
func (c oldCall) policyLists() (any, error) {
	kindOf := func(id string) Kind {
		if _, err := c.Get(Route, id); err == nil {
			return Route
		}
		return LoadBalancer
	}
	switch {
	case c.method == http.MethodGet && c.id() == "":
		balancers, err := c.list(LoadBalancer, oldPolicyList)
		routes, err2 := c.list(Route, oldPolicyList)
		return append(balancers, routes...), errors.Join(err, err2)
	case c.method == http.MethodPost && c.id() == "":
		old, err := parse(c.body)
		if err != nil {
			return nil, err
		}
		k, o, err := newPolicyList(old)
		if err != nil {
			return nil, err
		}
		made, err := c.Create(k, c.newID(), []byte(encode(o)))
		if err != nil {
			return nil, err
		}
		return oldPolicyList(made.clone()), nil
	}
	return c.objects(kindOf(c.id()), oldPolicyList, nil)
}
