//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// apiServerFails makes the operator use a faulty proxy to the API server, which answers 503 without Retry-After to 30 % of the
// requests and cuts the connection of another 20 %. All hosts must join.
func apiServerFails(p harness) {
	proxy := p.faultyProxy()
	defer proxy.Close()
	p.Operator.Kill()
	restore, err := p.Operator.UseAPIServer(proxy.URL, proxy.Certificate())
	must(p.t, err)
	defer func() {
		p.Operator.Kill()
		restore()
		p.startOperator()
	}()
	p.startOperator()
	stop := p.keepOperatorRunning()
	defer stop()
	var all []joiningHost
	for n := range 5 {
		all = append(all, p.addHost(fmt.Sprintf("fails-%d", n), nil))
	}
	for _, j := range all {
		p.expectAlive(j)
	}
	p.expectOneNodeEach(all)
}

// faultyProxy forwards requests to the API server, and fails half of them at random. Established watches do not fail.
func (p harness) faultyProxy() *httptest.Server {
	p.t.Helper()
	config := rest.AnonymousClientConfig(p.Lab.ControlPlane.RESTConfig())
	transport, err := rest.TransportFor(config)
	must(p.t, err)
	to, err := url.Parse(config.Host)
	must(p.t, err)
	pass := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1,
	}
	random := &lockedRandom{random: p.random()}
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := random.IntN(10); {
		case n < 3:
			http.Error(w, "no server is available", http.StatusServiceUnavailable)
		case n < 5:
			panic(http.ErrAbortHandler)
		default:
			pass.ServeHTTP(w, r)
		}
	}))
}

// lockedRandom is a source of random numbers for several goroutines.
type lockedRandom struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (r *lockedRandom) IntN(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}
