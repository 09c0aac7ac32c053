package policysets

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// apiServer serves lists, and watches in which nothing happens until end.
type apiServer struct {
	mu       sync.Mutex
	requests []string
	lists    map[string]any
	end      chan struct{}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	resources := func(version string, kinds ...string) {
		var list []string
		for _, kind := range kinds {
			name := strings.ToLower(kind) + "s"
			if kind == "NetworkPolicy" {
				name = "networkpolicies"
			}
			list = append(list, fmt.Sprintf(`{"name": %q, "kind": %q, "namespaced": %t}`, name, kind, kind != "Namespace"))
		}
		_, _ = fmt.Fprintf(w, `{"kind": "APIResourceList", "groupVersion": %q, "resources": [%s]}`, version, strings.Join(list, ","))
	}
	group := func(name, version string) string {
		v := fmt.Sprintf(`{"groupVersion": "%s/%s", "version": %q}`, name, version, version)
		return fmt.Sprintf(`{"name": %q, "versions": [%s], "preferredVersion": %s}`, name, v, v)
	}
	switch r.URL.Path {
	case "/api":
		_, _ = io.WriteString(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
	case "/apis":
		_, _ = fmt.Fprintf(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [%s, %s]}`, group("networking.k8s.io", "v1"), group(api.GroupName, "v1alpha1"))
	case "/api/v1":
		resources("v1", "Pod", "Namespace")
	case "/apis/networking.k8s.io/v1":
		resources("networking.k8s.io/v1", "NetworkPolicy")
	case "/apis/" + api.GroupName + "/v1alpha1":
		resources(api.GroupName+"/v1alpha1", "WindowsPolicySet")
	default:
		s.object(w, r)
	}
}

func (s *apiServer) object(w http.ResponseWriter, r *http.Request) {
	list := s.lists[r.URL.Path]
	switch {
	case list == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Query().Get("sendInitialEvents") != "": // as API servers before 1.34
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}`)
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		select {
		case <-s.end:
		case <-r.Context().Done():
		}
	default:
		s.mu.Lock()
		s.requests = append(s.requests, r.URL.Path+" "+r.URL.Query().Get("fieldSelector")+" "+r.Header.Get("Accept"))
		s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(list)
	}
}

// TestWatchReadsWhatIsCompiled runs the real caches on a server with one object of each kind.
func TestWatchReadsWhatIsCompiled(t *testing.T) {
	const sets = "/apis/" + api.GroupName + "/v1alpha1/namespaces/ns/windowspolicysets"
	named := metav1.ObjectMeta{Namespace: "ns", Name: "shop", UID: "uid", Generation: 3, ResourceVersion: "1"}
	meta := func(kind, version string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: version} }
	at := metav1.ListMeta{ResourceVersion: "1"}
	policy := newPolicy("shop", "web", "client")
	s := &apiServer{end: make(chan struct{}), lists: map[string]any{
		"/api/v1/pods":       corev1.PodList{TypeMeta: meta("PodList", "v1"), ListMeta: at, Items: []corev1.Pod{*whole()}},
		"/api/v1/namespaces": corev1.NamespaceList{TypeMeta: meta("NamespaceList", "v1"), ListMeta: at, Items: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}},
		"/apis/networking.k8s.io/v1/networkpolicies": networkingv1.NetworkPolicyList{
			TypeMeta: meta("NetworkPolicyList", "networking.k8s.io/v1"), ListMeta: at, Items: []networkingv1.NetworkPolicy{*policy},
		},
		sets: metav1.PartialObjectMetadataList{TypeMeta: meta("PartialObjectMetadataList", "meta.k8s.io/v1"), ListMeta: at, Items: []metav1.PartialObjectMetadata{
			{TypeMeta: meta("PartialObjectMetadata", "meta.k8s.io/v1"), ObjectMeta: named},
		}},
	}}
	server := httptest.NewServer(s)
	defer server.Close()
	defer close(s.end)
	m, err := manager.New(&rest.Config{Host: server.URL, QPS: -1}, manager.Options{Scheme: controllertest.Scheme(t), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	inputs, others := make(chan struct{}, 100), make(chan struct{}, 100)
	c := &Controller{Options: Options{Client: m.GetClient(), Namespace: "ns"}}
	var end func()
	if c.objects, end, err = watch(t.Context(), m, "ns", func(isInput bool) {
		if isInput {
			inputs <- struct{}{}
		} else {
			others <- struct{}{}
		}
	}); err != nil {
		t.Fatal(err)
	}
	defer end()
	for kind, changed := range map[string]chan struct{}{"an input": inputs, "a set": others} {
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Errorf("no event of %s arrived", kind)
		}
	}
	var pods corev1.PodList
	if err := c.objects.List(t.Context(), &pods, client.UnsafeDisableDeepCopy); err != nil || len(pods.Items) != 1 || pods.Items[0].Status.Message != "" || kube.IsCut(&pods.Items[0]) {
		t.Errorf("the cache has pods %+v, error %v", pods.Items, err)
	}
	existing, err := c.existing(t.Context())
	if err != nil || len(existing) != 1 || existing["shop"].Generation != 3 || existing["shop"].UID != "uid" {
		t.Errorf("the cache has sets %+v, error %v", existing, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, want := range []string{"/api/v1/pods status.phase!=Succeeded,status.phase!=Failed ", sets + "  application/json;as=PartialObjectMetadata"} {
		if !strings.Contains(strings.ReplaceAll(strings.Join(s.requests, "\n"), "application/vnd.kubernetes.protobuf", "application/json"), want) {
			t.Errorf("no request begins with %q: %q", want, s.requests)
		}
	}
}
