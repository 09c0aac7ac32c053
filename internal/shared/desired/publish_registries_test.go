package desired_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// TestMirrorsRoundTrip: thousands of mirrors are compressed, so that they fit into a
// ConfigMap.
func TestMirrorsRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 10000} {
		var node desired.Node
		if n > 0 {
			node.Registries = &mirrors.Table{}
		}
		for i := range n {
			name := fmt.Sprintf("registry-%d.example.com/team-%d/image-%d", i%7, i%100, i)
			node.Registries.Sources = append(node.Registries.Sources, mirrors.Source{Prefix: name, Digests: []mirrors.Location{{At: "mirror.example.com/copies/" + name}}})
		}
		data, err := node.Data()
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, value := range data {
			size += len(value)
		}
		if size > 512<<10 {
			t.Errorf("%d sources take %d bytes", n, size)
		}
		again, err := desired.FromData(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(node.Registries, again.Registries); diff != "" {
			t.Errorf("%d sources (-want +got):\n%s", n, diff)
		}
	}
}

func TestUnreadableMirrorsAreAnError(t *testing.T) {
	good, err := desired.Node{}.Data()
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"registries": "{", "registries.gz.base64": "H4sI"} {
		good[key] = value
		if _, err := desired.FromData(good); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
		delete(good, key)
	}
}
