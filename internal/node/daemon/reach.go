package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Limits of a connection attempt to the API server.
const (
	reachTimeout   = 20 * time.Second // in total
	connectTimeout = 5 * time.Second  // per address
	maxResolved    = 16               // addresses in a result
	maxTried       = 4
)

// Reach checks whether this host reaches the cluster's API server as its services will: without a proxy, at the first address of its name that
// answers, and with a certificate of the cluster's authority. It changes nothing.
func Reach(ctx context.Context, h hostapi.Host, r wicdapi.ReachRequest) (wicdapi.ReachResult, error) {
	server, err := url.Parse(r.Server)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return wicdapi.ReachResult{}, fmt.Errorf("the API server's URL is %.200q; an https URL is needed", r.Server)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(r.CA)) {
		return wicdapi.ReachResult{}, errors.New("the request has no CA certificate of the cluster")
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var result wicdapi.ReachResult
	addresses, err := resolve(ctx, h, server.Hostname())
	if err != nil {
		result.Failure = fmt.Sprintf("resolving %s: %v", server.Hostname(), err)
		return result, nil
	}
	if net.ParseIP(server.Hostname()) == nil {
		result.Resolved = addresses
	}
	connection, err := connectToOne(ctx, h, addresses, server.Port())
	if err != nil {
		result.Failure = err.Error()
		return result, nil
	}
	defer connection.Close()
	if err := verify(ctx, connection, server.Hostname(), authorities); err != nil {
		result.Failure = fmt.Sprintf("verifying the server at %s: %v", connection.RemoteAddr(), err)
	}
	return result, nil
}

// resolve returns the addresses of a name, or the address if name is one.
func resolve(ctx context.Context, h hostapi.Host, name string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{ip}, nil
	}
	lookup := h.Resolve
	if lookup == nil {
		lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	all, err := lookup(ctx, name)
	if err == nil && len(all) == 0 {
		err = errors.New("the name has no address")
	}
	var addresses []netip.Addr
	for _, ip := range all[:min(len(all), maxResolved)] {
		addresses = append(addresses, ip.Unmap())
	}
	return addresses, err
}

// connectToOne connects to the first address that answers.
func connectToOne(ctx context.Context, h hostapi.Host, addresses []netip.Addr, port string) (net.Conn, error) {
	dial := h.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	if port == "" {
		port = "443"
	}
	var failures []string
	for _, ip := range addresses[:min(len(addresses), maxTried)] {
		at := net.JoinHostPort(ip.String(), port)
		attempt, cancel := context.WithTimeout(ctx, connectTimeout)
		connection, err := dial(attempt, "tcp", at)
		cancel()
		if err == nil {
			return connection, nil
		}
		failures = append(failures, fmt.Sprintf("connecting to %s: %v", at, err))
	}
	return nil, errors.New(strings.Join(failures, "; "))
}

// verify checks that the server is the cluster's API server.
func verify(ctx context.Context, connection net.Conn, name string, authorities *x509.CertPool) error {
	session := tls.Client(connection, &tls.Config{RootCAs: authorities, ServerName: name, MinVersion: tls.VersionTLS12})
	err := session.HandshakeContext(ctx)
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok && unknown.Cert != nil {
		return fmt.Errorf("%w: it was issued by %.200q", err, unknown.Cert.Issuer.String())
	}
	return err
}
