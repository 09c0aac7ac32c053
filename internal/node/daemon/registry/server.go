package registry

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// Limits of the server. containerd may read a layer slowly, but not forever.
const (
	maxRequests    = 64
	headerTimeout  = 10 * time.Second
	writeTimeout   = 10 * time.Minute
	idleTimeout    = 2 * time.Minute
	listenInterval = 10 * time.Second
	dialTimeout    = 10 * time.Second
	maxHeader      = 64 << 10
)

// Config is the registry's configuration.
type Config struct {
	// Table determines which registries to query; if nil, nothing is served.
	Table *mirrors.Table
	// Keyring holds the node's credentials.
	Keyring []byte
	// Proxy are the environment variables for the proxy to registries.
	Proxy map[string]string
	// Certificates are trusted in addition to those of the host, as PEM.
	Certificates string
	// Endpoint has the certificates of the registry and of containerd.
	Endpoint credentials.RegistryEndpoint
}

// Server is the registry. It exists as long as the daemon: a change of settings interrupts no pull.
type Server struct {
	// Listen opens the address; Dial connects to registries.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Log    *slog.Logger

	limits  limits
	mu      sync.Mutex
	config  Config
	state   *requestHandler
	problem Problem
	changed chan struct{}
	counts  [results]atomic.Int64
	slots   chan struct{}
	// gathering has the layers that send several pieces at once.
	gathering chan struct{}
}

// Problem is why nothing is served.
type Problem struct {
	// Err is nil if there is no problem.
	Err   error
	Since time.Time
}

// NewServer returns a server that serves nothing yet. If listen or dial is nil, the network of this machine is used.
func NewServer(listen func(context.Context, string, string) (net.Listener, error), dial func(context.Context, string, string) (net.Conn, error), log *slog.Logger) *Server {
	if listen == nil {
		listen = (&net.ListenConfig{}).Listen
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return &Server{Listen: listen, Dial: dial, Log: log, limits: defaultLimits(), changed: make(chan struct{}), slots: make(chan struct{}, maxRequests), gathering: make(chan struct{}, maxGathering)}
}

// requestHandler is shared by the requests of one configuration. It is immutable, except for its memory.
type requestHandler struct {
	router *mirrors.Router
	client *registryclient.Client
	memory *memory
	pair   tls.Certificate
	// containerd is the certificate of containerd, the only client.
	containerd []byte

	log *slog.Logger
	// failed are the messages of failed HEAD requests, which have no room for them; containerd repeats such a request with GET.
	failed  *cache.LRUExpireCache // messages by failedRequest
	request func(Result)
	limits  limits
	// gathering is the server's.
	gathering chan struct{}
}

// limits are timeouts.
type limits struct {
	// timeout is how long it may take until one of the registries responds; containerd waits 30 s for WICD.
	timeout time.Duration
	// idle is how long a body may deliver no data.
	idle time.Duration
	// gather is how long data from a slow registry may be buffered.
	gather time.Duration
}

func defaultLimits() limits {
	return limits{timeout: 26 * time.Second, idle: 60 * time.Second, gather: time.Second}
}

// Use makes the server use another configuration from the next request on. Requests in progress keep theirs.
func (s *Server) Use(c Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reflect.DeepEqual(s.config, c) && (s.state != nil || c.Table == nil) {
		return nil
	}
	var next *requestHandler
	if c.Table != nil {
		pair, err := tls.X509KeyPair([]byte(c.Endpoint.Server.Certificate), []byte(c.Endpoint.Server.PrivateKey))
		containerd, _ := pem.Decode([]byte(c.Endpoint.Client.Certificate))
		if err != nil || containerd == nil {
			return errors.New("the certificates of the registry and of containerd cannot be read") // the cause might quote a key
		}
		options := registryclient.Options{Agent: "wicd", Keyring: c.Keyring, Proxy: c.Proxy, Certificates: c.Certificates, Dial: dialWide(s.Dial)}
		next = &requestHandler{
			router: mirrors.NewRouter(*c.Table), client: registryclient.New(options), memory: newMemory(), pair: pair,
			containerd: containerd.Bytes, log: s.Log, failed: cache.NewLRUExpireCache(maxRemembered), limits: s.limits, gathering: s.gathering, request: func(r Result) { s.counts[r].Add(1) },
		}
	}
	if s.state != nil {
		s.state.client.CloseIdleConnections()
	}
	s.config, s.state = c, next
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

func (s *Server) current() (*requestHandler, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// Problem returns why nothing is served although there is a configuration.
func (s *Server) Problem() Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

func (s *Server) setProblem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.problem = Problem{}
	case s.problem.Err == nil || s.problem.Err.Error() != err.Error():
		s.problem = Problem{Err: err, Since: time.Now()}
		s.Log.Error("Serving registry mirrors failed", "error", err.Error())
	}
}

// Run serves while there is something to serve, until ctx is done. If the port is in use, it retries.
func (s *Server) Run(ctx context.Context) {
	for ctx.Err() == nil {
		state, changed := s.current()
		if state == nil {
			s.setProblem(nil)
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		listener, err := s.Listen(ctx, "tcp", desired.RegistryAddress)
		if err != nil {
			s.setProblem(fmt.Errorf("listening on %s, where containerd pulls mirrored images: %w; stop the program that uses the port", desired.RegistryAddress, err))
			_ = backoff.Sleep(ctx, listenInterval)
			continue
		}
		s.setProblem(nil)
		s.serve(ctx, listener)
	}
}

// serve serves on a listener until ctx is done or there is nothing left to serve.
func (s *Server) serve(ctx context.Context, listener net.Listener) {
	server := &http.Server{
		Handler: s, ConnContext: withConnection, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"},
			// A client without the right certificate gets an answer and is counted: isFromContainerd compares it.
			ClientAuth: tls.RequestClientCert,
			// Layers are large, and loopback loses no packets.
			DynamicRecordSizingDisabled: true,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				state, _ := s.current()
				if state == nil {
					return nil, errors.New("no registry mirrors are configured")
				}
				return &state.pair, nil
			},
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(gatheringListener{listener}, "", "") }()
	for state, changed := s.current(); state != nil && ctx.Err() == nil; state, changed = s.current() {
		select {
		case err := <-ended:
			s.Log.Error("Serving registry mirrors failed", "error", err.Error())
			_ = backoff.Sleep(ctx, listenInterval)
			return
		case <-ctx.Done():
		case <-changed:
		}
	}
	_ = server.Close()
	<-ended
}
