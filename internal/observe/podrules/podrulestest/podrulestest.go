// Package podrulestest generates pods that break rules, and random pods, for tests.
package podrulestest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
)

// Break breaks a rule in a spec with its example. list is the kind of containers, if the rule is about containers. It returns the path of the
// field.
func Break(t *testing.T, spec map[string]any, r podrules.Rule, list string) (at string) {
	t.Helper()
	path := strings.Replace(r.Path, "hugepages-*", "hugepages-2Mi", 1)
	if list != "" {
		path = list + strings.TrimPrefix(path, "containers")
	}
	var value any
	if err := json.Unmarshal([]byte(r.Example), &value); err != nil {
		t.Fatalf("the example of %s: %v", r.Path, err)
	}
	object := spec
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		object = below(object, part)
	}
	object[parts[len(parts)-1]] = value
	return strings.ReplaceAll(path, "[*]", "[0]")
}

// below returns a part of an object. It creates the part if it is missing.
func below(object map[string]any, part string) map[string]any {
	name, isList := strings.CutSuffix(part, "[*]")
	if !isList {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		return inner
	}
	if items, _ := object[name].([]any); len(items) > 0 {
		first, _ := items[0].(map[string]any)
		return first
	}
	first := map[string]any{"name": "example"}
	object[name] = []any{first}
	return first
}
