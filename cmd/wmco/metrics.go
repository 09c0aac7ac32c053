package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
)

// Limits of the metrics server, which every client that reaches a control plane node can connect to. A scrape is one small request about every
// 30 seconds, from one or two Prometheus servers.
const (
	// Concurrent connections; further ones are closed at once.
	maxConnections, maxConnectionsPerSource = 128, 16
	// maxHeaders is in bytes. Tokens have up to a few thousand.
	maxHeaders = 32 << 10
	// requestTimeout bounds the TLS handshake and the request, each. responseTimeout bounds the response, which takes two API server requests.
	requestTimeout, responseTimeout = 10 * time.Second, time.Minute
	idleTimeout                     = 2 * time.Minute
	maxConcurrentResponses          = 4
	stopTimeout                     = 5 * time.Second
)

type metricsOptions struct {
	// address to listen on.
	address string
	// certDir holds the serving certificate, tls.crt and tls.key; empty for a self-signed one.
	certDir string
	// minVersion is the minimum TLS version.
	minVersion uint16
	// profile returns what the cluster's TLS security profile has servers offer; nil if there is none or it is not known yet.
	profile func() *tlsprofile.Server
}

// newMetrics listens and returns the server of /metrics. It serves TLS and requires a token that the cluster authorizes to get /metrics. The
// manager runs it.
func newMetrics(config *rest.Config, client *http.Client, o metricsOptions, logger logr.Logger) (*manager.Server, error) {
	certificate, err := newServingCertificate(o.certDir, logger)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate for the metrics: %w", err)
	}
	filter, err := filters.WithAuthenticationAndAuthorization(config, client)
	if err != nil {
		return nil, err
	}
	answer := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxConcurrentResponses})
	handler, err := newGate().before(func(h http.Handler) (http.Handler, error) { return filter(logger, h) }, answer)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", o.address)
	if err != nil {
		return nil, fmt.Errorf("listening for metrics: %w", err)
	}
	wait := stopTimeout
	return &manager.Server{
		Name: "metrics", ShutdownTimeout: &wait,
		Listener: tls.NewListener(newBoundedListener(l, maxConnections, maxConnectionsPerSource), tlsConfig(o, certificate)),
		Server: &http.Server{
			Handler: mux, MaxHeaderBytes: maxHeaders, ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout, WriteTimeout: responseTimeout,
			IdleTimeout: idleTimeout,
			ErrorLog:    log.New(io.Discard, "", 0), // would log a line for each client that does not use TLS
		},
	}, nil
}

// tlsConfig applies the cluster's TLS security profile at the time of each connection; default: Intermediate. HTTP/2 is not offered: its streams
// would allow more requests per connection than a scrape needs.
func tlsConfig(o metricsOptions, certificate *servingCertificate) *tls.Config {
	return &tls.Config{
		MinVersion: o.minVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			offers := o.profile()
			if offers == nil {
				offers = new(tlsprofile.Profile{}.Server())
			}
			c := &tls.Config{
				MinVersion: o.minVersion, CipherSuites: cipherSuites(offers.CipherSuites), NextProtos: []string{"http/1.1"},
				GetCertificate: certificate.get,
			}
			if offers.MinVersion == tlsprofile.TLS13 {
				c.MinVersion = tls.VersionTLS13
			}
			return c, nil
		},
	}
}

// cipherSuites returns the secure suites of crypto/tls with these names.
func cipherSuites(names []string) (ids []uint16) {
	for _, s := range tls.CipherSuites() {
		if slices.Contains(names, s.Name) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// tlsVersion parses a TLS version in the notation of Kubernetes' flags.
func tlsVersion(name string) (uint16, error) {
	switch name {
	case "VersionTLS12":
		return tls.VersionTLS12, nil
	case "VersionTLS13":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("flag --tls-min-version is %q, want VersionTLS12 or VersionTLS13", name)
}
