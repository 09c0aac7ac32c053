package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bigNode is a Node with all fields of real ones that the overlay ignores.
func bigNode(i int) string {
	return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n%d","resourceVersion":"%d","managedFields":[{"manager":"kubelet","fieldsV1":{"f:x":"%s"}}],
		"labels":{"kubernetes.io/os":"windows","a":"b"},"annotations":{"other":"x","k8s.ovn.org/hybrid-overlay-node-subnet":"10.132.%d.0/24",
		"k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac":"00-15-5D-00-00-%02X"}},"spec":{"podCIDR":"10.0.0.0/24"},
		"status":{"conditions":[{"type":"Ready","status":"True","message":"m"}],"addresses":[{"type":"Hostname","address":"n"},{"type":"InternalIP","address":"192.0.2.%d"}],
		"images":[{"names":["%s"],"sizeBytes":7}]}}`, i, i, strings.Repeat("m", 4000), i, i, i, strings.Repeat("i", 9000))
}

func TestAListIsDecodedItemByItem(t *testing.T) {
	items := make([]string, 200)
	for i := range items {
		items[i] = bigNode(i)
	}
	list := func(metadata, items string) string {
		return `{"kind":"NodeList","apiVersion":"v1",` + metadata + `,"unknown":[{"a":1}],` + items + `}`
	}
	all := `"items":[` + strings.Join(items, ",") + `]`
	for name, test := range map[string]struct {
		text  string
		nodes int
		page  page
		fails bool
	}{
		"last page":      {list(`"metadata":{"resourceVersion":"7"}`, all), 200, page{ResourceVersion: "7"}, false},
		"first page":     {list(`"metadata":{"resourceVersion":"7","continue":"c","remainingItemCount":3}`, all), 200, page{"7", "c"}, false},
		"metadata last":  {`{` + all + `,"metadata":{"resourceVersion":"7"}}`, 200, page{ResourceVersion: "7"}, false},
		"no items":       {list(`"metadata":{"resourceVersion":"7"}`, `"items":null`), 0, page{ResourceVersion: "7"}, false},
		"cut":            {list(`"metadata":{"resourceVersion":"7"}`, all)[:100_000], 7, page{}, true},
		"no list":        {`[]`, 0, page{}, true},
		"items no list":  {`{"items":{}}`, 0, page{}, true},
		"nothing at all": {``, 0, page{}, true},
	} {
		var seen []Node
		p, err := readList(strings.NewReader(test.text), func(o object) { seen = append(seen, o.node()) })
		if (err != nil) != test.fails || p != test.page || len(seen) != test.nodes {
			t.Errorf("%s: %d nodes, page %+v, error %v", name, len(seen), p, err)
		}
		if len(seen) > 5 {
			want := Node{Name: "n5", Windows: true, Subnet: "10.132.5.0/24", RouterMAC: "00-15-5D-00-00-05", InternalIPs: []string{"192.0.2.5"}}
			if diff := cmp.Diff(want, seen[5]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestEventsOfAWatch(t *testing.T) {
	stop := errors.New("enough")
	for name, test := range map[string]struct {
		text string
		want []string
		code int
		err  string
	}{
		"two": {`{"type":"ADDED","object":` + bigNode(1) + `}{"type":"DELETED","object":` + bigNode(2) + `}`, []string{"ADDED n1 1", "DELETED n2 2"}, 0, ""},
		"bookmark": {`{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"status":{}}}`,
			[]string{"BOOKMARK  9"}, 0, ""},
		"too old": {`{"type":"ADDED","object":` + bigNode(1) + `}{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old","reason":"Expired","code":410}}`,
			[]string{"ADDED n1 1"}, 410, "too old"},
		"stopped": {`{"type":"ADDED","object":` + bigNode(7) + `}{"type":"ADDED","object":` + bigNode(1) + `}`, []string{"ADDED n7 7"}, 0, "enough"},
		"cut":     {`{"type":"ADDED","object":{"metadata":`, nil, 0, "reading an event"},
		"empty":   {"", nil, 0, ""},
	} {
		var seen []string
		err := readEvents(strings.NewReader(test.text), func(e event) error {
			seen = append(seen, fmt.Sprintf("%s %s %s", e.Type, e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion))
			if e.Object.Metadata.Name == "n7" {
				return stop
			}
			return nil
		})
		if diff := cmp.Diff(test.want, seen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if hasCode(err, 410) != (test.code == 410) || test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, want %q", name, err, test.err)
		}
	}
}

// FuzzEvents checks that no input causes a panic or an invalid Node.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":` + bigNode(1) + `}`))
	f.Add([]byte(`{"type":"ERROR","object":{"status":"Failure","code":410}}`))
	f.Add([]byte(`{"items":[{"status":{"addresses":null}}],"metadata":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = readEvents(strings.NewReader(string(b)), func(e event) error {
			if _, err := json.Marshal(e.Object.node()); err != nil {
				t.Error(err)
			}
			return nil
		})
		_, err := readList(strings.NewReader(string(b)), func(o object) { _ = Settings{}.decide(Node{}, []Node{o.node()}, nil) })
		if err == nil && len(b) == 0 {
			t.Error("nothing is a list")
		}
		if err != nil && errors.Is(err, io.EOF) && len(b) > 0 && json.Valid(b) && b[0] == '{' {
			t.Errorf("a whole object ended early: %v", err)
		}
	})
}
