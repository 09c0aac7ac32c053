package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
)

// Limits of the metrics' server, which everybody who reaches a control plane node can speak to. A scrape is one small request every half
// minute or so, by one or two Prometheus.
const (
	// Connections at a time; further ones are closed at once.
	maxConnections, maxConnectionsOfOne = 128, 16
	// maxHeaders is in bytes. Tokens have up to a few thousand.
	maxHeaders = 32 << 10
	// requestWithin bounds the TLS handshake and the request, each. answerWithin bounds the answer, in which are two requests to the API server.
	requestWithin, answerWithin = 10 * time.Second, time.Minute
	idleWithin                  = 2 * time.Minute
	maxAnswersAtOnce            = 4
	stopWithin                  = 5 * time.Second
)

// metricsOptions are how metrics are served.
type metricsOptions struct {
	// address to listen at.
	address string
	// certDir has the serving certificate, tls.crt and tls.key; empty for one that the operator signs itself.
	certDir string
	// minVersion of TLS.
	minVersion uint16
}

// newMetrics listens, and returns the server of /metrics: over TLS, for clients with a token of the cluster that may get it. The manager
// runs it.
func newMetrics(config *rest.Config, client *http.Client, o metricsOptions, logger logr.Logger) (*manager.Server, error) {
	certificate, err := newServingCertificate(o.certDir, logger)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for the metrics: %w", err)
	}
	filter, err := filters.WithAuthenticationAndAuthorization(config, client)
	if err != nil {
		return nil, err
	}
	answer := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxAnswersAtOnce})
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
	wait := stopWithin
	return &manager.Server{
		Name: "metrics", ShutdownTimeout: &wait,
		Listener: tls.NewListener(newBoundedListener(l, maxConnections, maxConnectionsOfOne), tlsConfig(o.minVersion, certificate)),
		Server: &http.Server{
			Handler: mux, MaxHeaderBytes: maxHeaders, ReadHeaderTimeout: requestWithin, ReadTimeout: requestWithin, WriteTimeout: answerWithin,
			IdleTimeout: idleWithin,
			ErrorLog:    log.New(io.Discard, "", 0), // a line for each stranger who does not speak TLS
		},
	}, nil
}

// tlsConfig is that of Mozilla's profile Intermediate, or, from 1.3 on, Modern, as OpenShift names them. HTTP/2 is not offered: its
// streams are more requests per connection than a scrape needs.
func tlsConfig(minVersion uint16, certificate *servingCertificate) *tls.Config {
	return &tls.Config{
		MinVersion: minVersion,
		CipherSuites: []uint16{ // those of TLS 1.2; 1.3 has none that is weak
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		NextProtos:     []string{"http/1.1"},
		GetCertificate: certificate.get,
	}
}

// tlsVersion reads a version of TLS as Kubernetes' programs name it.
func tlsVersion(name string) (uint16, error) {
	switch name {
	case "VersionTLS12":
		return tls.VersionTLS12, nil
	case "VersionTLS13":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("flag --tls-min-version is %q; VersionTLS12 or VersionTLS13 is needed", name)
}
