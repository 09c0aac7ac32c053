package servers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

// MetadataOptions are the options of a cloud's metadata service for one machine.
type MetadataOptions struct {
	// Platform is one of the platforms in package platform.
	Platform string
	// Name is the name of the machine.
	Name string
	// With Version1, AWS' service has no tokens; with NoVersion1, it requires one.
	Version1, NoVersion1 bool
	// Status is returned instead of an answer, for the first Failures requests.
	Status   int
	Failures int
	// Delay is the delay of an answer.
	Delay time.Duration
	// Else connects to other addresses; if nil, the connections fail.
	Else func(ctx context.Context, network, address string) (net.Conn, error)
}

// Metadata is the metadata service of a cloud for one machine.
type Metadata struct {
	options  MetadataOptions
	listener *bufconn.Listener
	server   *http.Server

	mu       sync.Mutex
	requests []string
	failures int
}

// metadataToken is the token of AWS' service.
const metadataToken = "a-token"

// NewMetadata starts a service that runs until Close. It is only reachable by Dial.
func NewMetadata(o MetadataOptions) *Metadata {
	m := &Metadata{options: o, listener: bufconn.Listen(buffer), failures: o.Failures}
	m.server = &http.Server{Handler: http.HandlerFunc(m.answer)}
	go func() { _ = m.server.Serve(m.listener) }() // ends with Close
	return m
}

// Dial connects to the service at the address that clouds use.
func (m *Metadata) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	switch {
	case address == platform.MetadataAddress+":80":
		return m.listener.DialContext(ctx)
	case m.options.Else != nil:
		return m.options.Else(ctx, network, address)
	}
	return nil, fmt.Errorf("connecting to %s: connection refused", address)
}

// Close ends the service.
func (m *Metadata) Close() { _ = m.server.Close() }

// Requests lists the requests in order: method, path, and the required header.
func (m *Metadata) Requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

func (m *Metadata) answer(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(m.options.Delay):
	case <-r.Context().Done():
		return
	}
	m.mu.Lock()
	m.requests = append(m.requests, r.Method+" "+r.URL.Path)
	fails := m.failures != 0
	if m.failures > 0 {
		m.failures--
	}
	m.mu.Unlock()
	if fails {
		http.Error(w, "not now", m.options.Status)
		return
	}
	switch m.options.Platform {
	case platform.AWS:
		m.answerAWS(w, r)
	case platform.GCP:
		m.answerGCP(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (m *Metadata) answerAWS(w http.ResponseWriter, r *http.Request) {
	const token, name = "/latest/api/token", "/latest/meta-data/local-hostname"
	switch {
	case r.URL.Path == token && r.Method == http.MethodPut && !m.options.Version1 && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
		_, _ = fmt.Fprint(w, metadataToken)
	case r.URL.Path != name || r.Method != http.MethodGet:
		http.NotFound(w, r)
	case m.options.NoVersion1 && r.Header.Get("X-aws-ec2-metadata-token") != metadataToken:
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	default:
		_, _ = fmt.Fprint(w, m.options.Name)
	}
}

func (m *Metadata) answerGCP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Metadata-Flavor") != "Google":
		http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
	case r.URL.Path != "/computeMetadata/v1/instance/hostname":
		http.NotFound(w, r)
	default:
		_, _ = fmt.Fprint(w, m.options.Name)
	}
}
