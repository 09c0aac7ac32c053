package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

// startFailingServer starts an API server that serves one Node and fails at random: 30 % of responses are 503 without Retry-After, and for 20 % the
// connection breaks before or within the response.
func startFailingServer(t *testing.T) (url string, calls *atomic.Int64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	chance := func() int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(10)
	}
	calls = &atomic.Int64{}
	node := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"win-1"},"spec":{"providerID":"` + strings.Repeat("x", 10_000) + `"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch n := chance(); {
		case n < 3:
			http.Error(w, "no server is available", http.StatusServiceUnavailable)
		case n < 4:
			panic(http.ErrAbortHandler)
		case n < 5:
			w.Header().Set("Content-Length", fmt.Sprint(len(node)))
			_, _ = io.WriteString(w, node[:5_000])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, node)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func withoutPauses(next http.RoundTripper) http.RoundTripper {
	return &retrying{next: next, pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

func TestRequestsSucceedDespiteHalfFailing(t *testing.T) {
	url, calls := startFailingServer(t)
	config := &restclient.Config{Host: url, QPS: -1}
	config.Wrap(withoutPauses)
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const each = 200
	for n := range each {
		if _, err := set.CoreV1().Nodes().Get(t.Context(), "win-1", metav1.GetOptions{}); err != nil {
			t.Errorf("read %d: %v", n, err)
		}
		if _, err := set.CoreV1().Nodes().Patch(t.Context(), "win-1", types.MergePatchType, []byte("{}"), metav1.PatchOptions{}, "status"); err != nil {
			t.Errorf("status %d: %v", n, err)
		}
	}
	if n := calls.Load(); n < 2*each*3/2 {
		t.Errorf("the server failed too rarely: %d calls", n)
	}
}

// answers is a transport that returns these status codes in order; 0 is a broken connection.
type answers struct {
	codes  []int
	header http.Header
	calls  int
	bodies []string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code := a.codes[min(a.calls, len(a.codes)-1)]
	a.calls++
	if r.Body != nil {
		text, _ := io.ReadAll(r.Body)
		a.bodies = append(a.bodies, string(text))
	}
	if code == 0 {
		return nil, errors.New("connection reset by peer")
	}
	header := a.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader("text"))}, nil
}

func TestOnlyRepeatableRequestsAreRetried(t *testing.T) {
	for _, test := range []struct {
		name, method, path string
		codes              []int
		header             http.Header
		calls, code        int
	}{
		{"successful read", "GET", "/api/v1/nodes", []int{200}, nil, 1, 200},
		{"read after two failures", "GET", "/api/v1/nodes", []int{503, 0, 200}, nil, 3, 200},
		{"read after an internal error", "GET", "/api/v1/nodes", []int{500, 200}, nil, 2, 200},
		{"status patch after two failures", "PATCH", "/api/v1/nodes/a/status", []int{0, 502, 200}, nil, 3, 200},
		{"write that a webhook rejects", "PATCH", "/api/v1/nodes/a", []int{500, 200}, nil, 1, 500},
		{"approval", "PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval", []int{0, 409}, nil, 2, 409},
		{"token", "POST", "/api/v1/namespaces/ns/serviceaccounts/a/token", []int{503, 201}, nil, 2, 201},
		{"creation", "POST", "/api/v1/namespaces/ns/configmaps", []int{503, 201}, nil, 1, 503},
		{"eviction", "POST", "/api/v1/namespaces/ns/pods/a/eviction", []int{429, 201}, nil, 1, 429},
		{"deletion", "DELETE", "/api/v1/nodes/a", []int{503, 200}, nil, 1, 503},
		{"watch", "GET", "/api/v1/nodes?watch=true", []int{503, 200}, nil, 1, 503},
		{"not found", "GET", "/api/v1/nodes/a", []int{404, 200}, nil, 1, 404},
		{"forbidden", "GET", "/api/v1/nodes/a", []int{403, 200}, nil, 1, 403},
		{"response with Retry-After", "GET", "/api/v1/nodes", []int{429, 200}, http.Header{"Retry-After": {"1"}}, 1, 429},
		{"repeated failures", "GET", "/api/v1/nodes", []int{503}, nil, maxAttempts, 503},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &answers{codes: test.codes, header: test.header}
			var body io.Reader
			if test.method != "GET" {
				body = strings.NewReader("what is written")
			}
			request, err := http.NewRequestWithContext(t.Context(), test.method, "https://api"+test.path, body)
			if err != nil {
				t.Fatal(err)
			}
			response, err := withoutPauses(a).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if a.calls != test.calls || response.StatusCode != test.code {
				t.Errorf("after %d calls the answer is %d, want %d and %d", a.calls, response.StatusCode, test.calls, test.code)
			}
			if text, err := io.ReadAll(response.Body); string(text) != "text" || err != nil {
				t.Errorf("the answer's text is %q, %v", text, err)
			}
			for _, text := range a.bodies {
				if text != "what is written" {
					t.Errorf("it was repeated with %q", text)
				}
			}
		})
	}
}

func TestCanceledRequestIsNotRetried(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api/api/v1/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &answers{codes: []int{0}}
	response, err := newRetrying(a).RoundTrip(request)
	if err == nil {
		response.Body.Close()
	}
	if err == nil || a.calls != 1 {
		t.Errorf("%d calls, error %v", a.calls, err)
	}
}

// TestLongResponseIsComplete expects streamed responses, such as the list of a large cluster, to be complete.
func TestLongResponseIsComplete(t *testing.T) {
	const size = 5 << 20
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", size))
	}))
	defer server.Close()
	response, err := (&http.Client{Transport: withoutPauses(http.DefaultTransport)}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); n != size || err != nil {
		t.Errorf("%d bytes of %d, %v", n, size, err)
	}
}
