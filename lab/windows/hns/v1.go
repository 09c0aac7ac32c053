package hns

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/windows-machine-config/wmco/internal/testing/sim/hnsquirks"
)

// version returns the reported version: that of Windows Server 2022, which has all features that hcsshim knows.
func version() map[string]any { return map[string]any{"Major": 15, "Minor": 4} }

// Call answers a call of the first generation of Windows' API (HNSCall of vmcompute.dll): REST, with JSON as in hcsshim's internal/hns. Both
// generations have the same objects. Programs only read with the first one; to change objects, they use the second.
func (s *Store) Call(method, path string) (answer string, err error) {
	output, err := oldCall{s, map[string]string{}}.answer(method, path)
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
	names map[string]string // of networks, by ID
}

func (c oldCall) answer(method, path string) (any, error) {
	if method != http.MethodGet {
		return nil, Unsupported
	}
	kind, id, _ := strings.Cut(strings.Trim(path, "/"), "/")
	switch kind {
	case "globals":
		return version(), nil
	case "networks":
		return c.read(Network, id, c.oldNetwork)
	case "endpoints":
		return c.read(Endpoint, id, c.oldEndpoint)
	case "endpointstats":
		o, err := c.Get(Endpoint, id)
		return map[string]any{"EndpointId": o.id(), "InstanceId": o.id()}, err
	case "policylists":
		return c.read(LoadBalancer, id, oldPolicyList)
	}
	return nil, Unsupported
}

// read returns an object, or all of the kind if there is no ID. View converts an object to the first generation.
func (c oldCall) read(k Kind, id string, view func(Object) map[string]any) (any, error) {
	if id == "" {
		return c.list(k, view)
	}
	o, err := c.Get(k, id)
	if err != nil {
		return nil, err
	}
	q, _, err := c.quirksNow()
	return oldEcho(q, view(echo(q, k, o))), err
}

// list returns all objects of a kind, as the service lists them.
func (c oldCall) list(k Kind, view func(Object) map[string]any) ([]map[string]any, error) {
	q, isLate, err := c.quirksNow()
	if err != nil {
		return nil, err
	}
	all, err := c.List(k, "")
	if err != nil {
		return nil, err
	}
	if isLate {
		all = hnsquirks.EverySecond(all)
	}
	if k == Endpoint {
		removed, err := c.List(stale, "")
		if err != nil {
			return nil, err
		}
		all = append(all, removed...)
	}
	views := []map[string]any{}
	for _, o := range all {
		views = append(views, oldEcho(q, view(echo(q, k, o))))
	}
	return views, nil
}
