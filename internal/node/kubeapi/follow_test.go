package kubeapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
)

// copyOf is a Store of the resource versions of objects.
type copyOf struct {
	mu      sync.Mutex
	objects map[string]string
}

func (c *copyOf) Replace(all map[types.NamespacedName]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = map[string]string{}
	for key, version := range all {
		c.objects[key.String()] = version
	}
}

func (c *copyOf) Put(key types.NamespacedName, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[key.String()] = version
}

func (c *copyOf) Remove(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, key.String())
}

func (c *copyOf) is(want map[string]string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Equal(c.objects, want)
}

func item(name, version string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"ns","name":%q,"resourceVersion":%q}}`, name, version)
}

func event(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) }

// end is the bookmark after the last existing object.
const end = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}`

// TestFollowerMaintainsCopy: the answers to consecutive requests lead to a copy.
func TestFollowerMaintainsCopy(t *testing.T) {
	both := map[string]string{"ns/a": "1", "ns/b": "2"}
	for name, test := range map[string]struct {
		answers []string // a status code, or a body
		queries []string
		want    map[string]string
	}{
		"initial events": {
			[]string{event("ADDED", item("a", "1")) + event("ADDED", item("x", "1")) + event("DELETED", item("x", "2")) + event("ADDED", item("b", "2")) + end},
			[]string{"true "}, both,
		},
		"changes": {
			[]string{event("ADDED", item("a", "1")) + event("ADDED", item("b", "2")) + end + event("MODIFIED", item("a", "7")), event("DELETED", item("b", "8"))},
			[]string{"true ", " 7"}, map[string]string{"ns/a": "7"},
		},
		"lists": {
			[]string{"422", `{"metadata":{"continue":"c","resourceVersion":"4"},"items":[` + item("a", "1") + `]}`,
				`{"metadata":{"resourceVersion":"4"},"items":[` + item("b", "2") + `]}`, event("BOOKMARK", item("", "9"))},
			[]string{"true ", " ", " c", " 4"}, both,
		},
		"disconnected for too long": {
			[]string{event("ADDED", item("x", "1")) + end, "410", event("ADDED", item("a", "1")) + event("ADDED", item("b", "2")) + end},
			[]string{"true ", " 5", "true "}, both,
		},
		"an object without a version is not stored": {
			[]string{end, event("ADDED", `{"metadata":{"namespace":"ns","name":"x"}}`), event("ADDED", item("a", "1")) + event("ADDED", item("b", "2"))},
			[]string{"true ", " 5", " 5"}, both,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var queries []string
			c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
				if len(queries) == len(test.answers) {
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					return
				}
				q, answer := r.URL.Query(), test.answers[len(queries)]
				queries = append(queries, q.Get("sendInitialEvents")+" "+q.Get("resourceVersion")+q.Get("continue"))
				var code int
				if _, err := fmt.Sscanf(answer, "%3d", &code); err == nil {
					w.WriteHeader(code)
					return
				}
				_, _ = io.WriteString(w, answer)
			})
			store := &copyOf{}
			f := kubeapi.Follower[string]{Path: "/x", Kind: "objects", Store: store, Log: slog.New(slog.DiscardHandler), Read: func(text json.RawMessage) (string, error) {
				var o struct {
					Metadata struct{ ResourceVersion string }
				}
				err := json.Unmarshal(text, &o)
				return o.Metadata.ResourceVersion, err
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan struct{})
			go func() { defer close(done); _ = f.Run(ctx, c) }()
			for !store.is(test.want) && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
			<-done
			if !store.is(test.want) {
				t.Errorf("got %v, want %v", store.objects, test.want)
			}
			if diff := cmp.Diff(test.queries, queries); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFollowerOfOneObjectReportsFailures: all its requests select the object.
func TestFollowerOfOneObjectReportsFailures(t *testing.T) {
	var selected []string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		selected = append(selected, r.URL.Query().Get("fieldSelector"))
		switch len(selected) {
		case 1:
			w.WriteHeader(http.StatusUnprocessableEntity)
		case 2:
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"4"},"items":[`+item("a", "1")+`]}`)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var failure error
	f := kubeapi.Follower[string]{
		Path: "/x", Kind: "objects", Name: "a", Store: &copyOf{}, Log: slog.New(slog.DiscardHandler),
		Read:   func(json.RawMessage) (string, error) { return "", nil },
		Failed: func(err error) { failure = err; cancel() },
	}
	_ = f.Run(ctx, c)
	if !kubeapi.HasCode(failure, http.StatusForbidden) {
		t.Errorf("the failure is %v", failure)
	}
	if diff := cmp.Diff([]string{"metadata.name=a", "metadata.name=a", "metadata.name=a"}, selected); diff != "" {
		t.Errorf("selected (-want +got):\n%s", diff)
	}
}
