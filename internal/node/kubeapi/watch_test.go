package kubeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func objectOf(name, version string) string {
	return fmt.Sprintf(`{"kind":"Node","metadata":{"name":%q,"resourceVersion":%q},"spec":{"podCIDR":"10.0.0.0/24"}}`, name, version)
}

func TestWatchEventsAreDecoded(t *testing.T) {
	stop := errors.New("enough")
	for name, test := range map[string]struct {
		text string
		want []string
		code int
		err  string
	}{
		"two": {`{"type":"ADDED","object":` + objectOf("n1", "1") + `}{"type":"DELETED","object":` + objectOf("n2", "2") + `}`, []string{"ADDED n1 1", "DELETED n2 2"}, 0, ""},
		"bookmark": {`{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"status":{}}}`,
			[]string{"BOOKMARK  9"}, 0, ""},
		"too old": {`{"type":"ADDED","object":` + objectOf("n1", "1") + `}{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old","reason":"Expired","code":410}}`,
			[]string{"ADDED n1 1"}, 410, "too old"},
		"stopped": {`{"type":"ADDED","object":` + objectOf("n7", "7") + `}{"type":"ADDED","object":` + objectOf("n1", "1") + `}`, []string{"ADDED n7 7"}, 0, "enough"},
		"cut":     {`{"type":"ADDED","object":{"metadata":`, nil, 0, "reading an event"},
		"empty":   {"", nil, 0, ""},
	} {
		var seen []string
		err := readEvents(strings.NewReader(test.text), func(e Event) error {
			m, err := readMetadata(e.Object)
			if err != nil {
				return err
			}
			seen = append(seen, fmt.Sprintf("%s %s %s", e.Type, m.Metadata.Name, m.Metadata.ResourceVersion))
			if m.Metadata.Name == "n7" {
				return stop
			}
			return nil
		})
		if diff := cmp.Diff(test.want, seen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if HasCode(err, 410) != (test.code == 410) || test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, want %q", name, err, test.err)
		}
	}
}

// FuzzEvents checks that no input causes a panic, or events that are no JSON.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":` + objectOf("n1", "1") + `}`))
	f.Add([]byte(`{"type":"ERROR","object":{"status":"Failure","code":410}}`))
	f.Add([]byte(`{"type":"ERROR","object":null}{"type":"ADDED"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = readEvents(strings.NewReader(string(b)), func(e Event) error {
			if len(e.Object) > 0 && !json.Valid(e.Object) {
				t.Errorf("object %q", e.Object)
			}
			_, err := readMetadata(e.Object)
			return err
		})
	})
}
