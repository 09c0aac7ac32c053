package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"

	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

// Server is an API server, and how to connect to it.
type Server struct {
	// Address is used in errors.
	Address string
	// CA is the server's CA certificate, as PEM; empty means the machine's trusted roots.
	CA []byte
	// Dial opens connections; nil uses the machine's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Pings detect dead connections, because a watch can be idle for a long time.
	Pings http.HTTP2Config
}

// Transport returns a transport to the server that presents a client certificate; nil presents none.
func (s Server) Transport(certificate *tls.Certificate) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(s.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(s.CA) {
			return nil, fmt.Errorf("reading the CA of %s: it contains no certificate", s.Address)
		}
	}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	transport := httpclient.Transport(config)
	transport.HTTP2 = &s.Pings
	if s.Dial != nil {
		transport.DialContext = s.Dial
	}
	return transport, nil
}
