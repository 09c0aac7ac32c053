// Package podrulestest writes pods that break rules, and pods by chance, and evaluates the policies as an API server does, for tests.
package podrulestest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/podrules"
)

// Break breaks a rule in a spec by its example. List is the kind of containers, where the rule is about them. It returns the path of
// the field.
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

// below is a part of an object, which it makes where there is none.
func below(object map[string]any, part string) map[string]any {
	name, isList := strings.CutSuffix(part, "[*]")
	if !isList {
		inner, is := object[name].(map[string]any)
		if !is {
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
