// Package clitest runs kubectl windows against a simulated API server. Tests define the objects and the forbidden requests, and check the output
// and the requests.
package clitest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/cli"
)

// Cluster is a simulated API server. It serves objects by path and merges patches into them.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig with its address.
	Kubeconfig string

	mu       sync.Mutex
	objects  map[string]client.Object // by path
	lists    map[string]bool          // paths of resources that exist
	denied   []string                 // prefixes of paths
	requests []string
	handlers map[string]http.Handler // by path prefix
}

// New returns a cluster that serves the resources with these list paths, such as /api/v1/nodes.
func New(t *testing.T, lists ...string) *Cluster {
	t.Helper()
	t.Setenv("LC_ALL", "C.UTF-8") // output must not depend on the locale of the environment
	c := &Cluster{objects: map[string]client.Object{}, lists: map[string]bool{}, handlers: map[string]http.Handler{}}
	for _, l := range lists {
		c.lists[l] = true
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server.URL}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: "test"}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

// Add adds an object of a resource, written as group/version/plural or version/plural.
func (c *Cluster) Add(resource string, o client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	prefix := "/apis/"
	if strings.Count(resource, "/") == 1 {
		prefix = "/api/"
	}
	collection := prefix + resource
	c.lists[collection] = true
	if o.GetNamespace() != "" {
		version, plural := path.Split(collection)
		collection = version + "namespaces/" + o.GetNamespace() + "/" + plural
	}
	o.SetUID(cmp.Or(o.GetUID(), "uid-of-test"))
	o.SetResourceVersion("1")
	c.objects[collection+"/"+o.GetName()] = o
}

// Deny forbids requests whose method and path have this prefix, as in "GET /api/v1/nodes".
func (c *Cluster) Deny(request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = append(c.denied, request)
}

// Handle registers a handler for requests whose path has this prefix, such as those to kubelets.
func (c *Cluster) Handle(prefix string, h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[prefix] = h
}

// Objects serves objects only and ignores the handlers set with Handle.
func (c *Cluster) Objects() http.Handler { return http.HandlerFunc(c.serveObjects) }

// Pods returns all pods.
func (c *Cluster) Pods() (pods []*corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, o := range c.objects {
		if path.Base(path.Dir(name)) != "pods" {
			continue
		}
		text, _ := json.Marshal(o)
		p := &corev1.Pod{}
		_ = json.Unmarshal(text, p)
		pods = append(pods, p)
	}
	return pods
}

// Requests returns the methods and paths of all requests, in order.
func (c *Cluster) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Object returns the object at a path, such as /api/v1/nodes/win-1; nil if there is none.
func (c *Cluster) Object(name string) client.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[name]
}

// ServeHTTP implements http.Handler.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := c.Objects()
	c.mu.Lock()
	for prefix, h := range c.handlers {
		if strings.HasPrefix(r.URL.Path, prefix) {
			handler = h
		}
	}
	c.mu.Unlock()
	handler.ServeHTTP(w, r)
}

func (c *Cluster) serveObjects(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := r.Method + " " + r.URL.Path
	c.requests = append(c.requests, got)
	w.Header().Set("Content-Type", "application/json")
	for _, denied := range c.denied {
		if strings.HasPrefix(got, denied) {
			reply(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(`%s is forbidden: User "bob" cannot %s resource "%s" in API group "" at the cluster scope`,
				path.Base(r.URL.Path), verb(r.Method), path.Base(r.URL.Path)))
			return
		}
	}
	object := c.objects[r.URL.Path]
	switch {
	case object != nil && r.Method == http.MethodDelete:
		delete(c.objects, r.URL.Path)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case object != nil && r.Method != http.MethodGet:
		c.change(w, r, object)
	case object != nil:
		_ = json.NewEncoder(w).Encode(object)
	case r.Method == http.MethodGet && c.lists[resourceOf(r.URL.Path)]:
		c.list(w, r)
	case r.Method == http.MethodPost && c.lists[resourceOf(r.URL.Path)]:
		c.create(w, r)
	default:
		reply(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
}

func verb(method string) string {
	return map[string]string{http.MethodGet: "list", http.MethodPatch: "patch", http.MethodPost: "create", http.MethodDelete: "delete", http.MethodPut: "update"}[method]
}

func reply(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason, Message: message,
	})
}

// resourceOf returns the path of a resource in all namespaces.
func resourceOf(collection string) string {
	parts := strings.Split(collection, "/")
	if i := slices.Index(parts, "namespaces"); i > 0 && len(parts) > i+2 {
		parts = slices.Delete(parts, i, i+2)
	}
	return strings.Join(parts, "/")
}

func (c *Cluster) list(w http.ResponseWriter, r *http.Request) {
	collection := r.URL.Path
	node, onNode := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
	items := []client.Object{}
	for _, name := range slices.Sorted(maps.Keys(c.objects)) {
		if p, isPod := c.objects[name].(*corev1.Pod); onNode && isPod && p.Spec.NodeName != node {
			continue
		}
		if path.Dir(name) == collection || resourceOf(path.Dir(name)) == collection && !strings.Contains(collection, "/namespaces/") {
			items = append(items, c.objects[name])
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{}, "items": items})
}

func (c *Cluster) create(w http.ResponseWriter, r *http.Request) {
	created := &unstructured.Unstructured{}
	text, err := io.ReadAll(r.Body)
	if o, _, decodeErr := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil); err == nil && decodeErr == nil {
		text, err = json.Marshal(o) // built-in kinds arrive as protobuf
	}
	if err == nil {
		err = json.Unmarshal(text, &created.Object)
	}
	if err != nil {
		reply(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	c.objects[r.URL.Path+"/"+created.GetName()] = created
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(created.Object)
}

// change merges a patch into the object, or replaces it. A dry run does not store the result.
func (c *Cluster) change(w http.ResponseWriter, r *http.Request, object client.Object) {
	var patch, current map[string]any
	text, _ := json.Marshal(object)
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		reply(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	_ = json.Unmarshal(text, &current)
	if r.Method == http.MethodPut {
		current = patch
	} else {
		merge(current, patch)
	}
	if !r.URL.Query().Has("dryRun") {
		c.objects[r.URL.Path] = &unstructured.Unstructured{Object: current}
	}
	_ = json.NewEncoder(w).Encode(current)
}

func merge(target, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		old, wasMap := target[key].(map[string]any)
		switch {
		case value == nil:
			delete(target, key)
		case isMap && wasMap:
			merge(old, inner)
		default:
			target[key] = value
		}
	}
}

// Result is the output and the exit code of a command.
type Result struct {
	Out, Err string
	Code     int
}

// Run runs a command line against the cluster, with input as standard input.
func (c *Cluster) Run(t *testing.T, input string, args ...string) Result {
	t.Helper()
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(input), Out: &out, ErrOut: &errs}
	code := cli.Run(ctx, args, streams, "v1.0.0")
	return Result{out.String(), errs.String(), code}
}
