package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// apiServer serves lists and watches of a few objects, as an API server does.
type apiServer struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string][]any // by resource
	denied  map[string]bool
	changes map[string][]chan any
	logs    map[string]string // by path
	ranges  []string

	once    sync.Once
	stopped chan struct{}
}

func newAPIServer(t *testing.T, instances ...v1alpha1.WindowsInstance) *apiServer {
	t.Helper()
	a := &apiServer{objects: map[string][]any{}, denied: map[string]bool{}, changes: map[string][]chan any{}, logs: map[string]string{}, stopped: make(chan struct{})}
	for i := range instances {
		a.objects["windowsinstances"] = append(a.objects["windowsinstances"], &instances[i])
	}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.stop)
	return a
}

// stop ends the watches before Close, which waits for them: a client may open another watch after CloseClientConnections.
func (a *apiServer) stop() {
	a.once.Do(func() {
		close(a.stopped)
		a.CloseClientConnections()
		a.Close()
	})
}

func (a *apiServer) config() *rest.Config { return &rest.Config{Host: a.URL, QPS: -1} }

// ServeHTTP implements http.Handler.
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	if text, isLog := a.logs[r.URL.Path]; isLog {
		a.ranges = append(a.ranges, r.Header.Get("Range"))
		a.mu.Unlock()
		_, _ = fmt.Fprint(w, text)
		return
	}
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if a.denied[resource] || strings.Contains(r.URL.Path, "/proxy/") {
		a.mu.Unlock()
		a.forbid(w, resource)
		return
	}
	list := map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": append([]any{}, a.objects[resource]...)}
	changed := make(chan any, 16)
	isWatch := r.URL.Query().Get("watch") != ""
	if isWatch {
		a.changes[resource] = append(a.changes[resource], changed)
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !isWatch {
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		a.refuseStreaming(w)
		return
	}
	a.watch(w, r.Context(), changed)
}

func (a *apiServer) watch(w http.ResponseWriter, ctx context.Context, changed <-chan any) {
	flush := w.(http.Flusher)
	flush.Flush()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.stopped:
			return
		case o, open := <-changed:
			if !open {
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": o})
			flush.Flush()
		}
	}
}

// refuseStreaming responds as an API server that does not support streaming lists.
func (a *apiServer) refuseStreaming(w http.ResponseWriter) {
	w.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
}

func (a *apiServer) forbid(w http.ResponseWriter, resource string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Code: 403,
		Message: fmt.Sprintf("%s is forbidden: User %q cannot list resource %q in API group %q at the cluster scope", resource, "alice", resource, ""),
	})
}

// set replaces the objects of a resource and sends them to its watches.
func (a *apiServer) set(resource string, objects ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[resource] = objects
	for _, c := range a.changes[resource] {
		for _, o := range objects {
			c <- o
		}
	}
}

// deny forbids or allows reading a resource and ends its watches.
func (a *apiServer) deny(resource string, denied bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied[resource] = denied
	for _, c := range a.changes[resource] {
		close(c)
	}
	a.changes[resource] = nil
}

// host returns an instance whose condition Ready has this reason.
func host(name, reason, message string) v1alpha1.WindowsInstance {
	status := metav1.ConditionFalse
	if reason == api.ReasonReady {
		status = metav1.ConditionTrue
	}
	i := v1alpha1.WindowsInstance{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.GroupName + "/v1alpha1", Kind: "WindowsInstance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "wmco", Name: name, ResourceVersion: "2"},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.1.42.1", Username: "Administrator"},
	}
	i.Status.NodeRef = &v1alpha1.NodeReference{Name: name}
	i.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(time.Unix(1e9, 0))}}
	return i
}

// node returns the Ready Node of a host.
func node(name string) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "2", Labels: map[string]string{corev1.LabelOSStable: "windows"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}
