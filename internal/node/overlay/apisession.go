package overlay

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
)

// apiSession makes all requests of the API server.
type apiSession struct {
	options  Options
	state    *state
	report   *reporter
	follower *kubeapi.Follower[Node]
	// cuts receives a message when the connections of this host were interrupted. Without it, minutes could pass until they fail on their own.
	cuts chan struct{}
}

// newManager returns the manager of the node's certificate.
func (s *apiSession) newManager() *identity.Manager {
	return &identity.Manager{
		Name: nameOf(s.options.Node), Prefix: "hybrid-overlay-node-", Bootstrap: s.bootstrap,
		Store: certificateFiles{}, Current: filepath.Join(s.options.CertDir, currentFile), Pending: filepath.Join(s.options.CertDir, pendingFile),
		Log:    s.options.Log,
		Pauses: func() func() time.Duration { return newRetry().Next },
		Issued: func(id identity.Identity) {
			s.report.setOne(api.ReasonOverlayCertificatePending, "")
			s.options.Log.Info("Certificate issued", "expires", id.Leaf.NotAfter.UTC().Format(time.RFC3339))
		},
	}
}

// run works until ctx is done, with one certificate after another.
func (s *apiSession) run(ctx context.Context) {
	manager := s.newManager()
	var rejected *x509.Certificate
	for ctx.Err() == nil {
		id, err := manager.Identify(ctx, rejected)
		if err != nil {
			return // ctx is done
		}
		s.removeOldCertificates()
		rejected = s.work(ctx, manager, id)
	}
}

// work follows Nodes and publishes the router's address until the certificate is renewed or rejected, or the connections are cut.
// It returns the certificate if the API server rejects it.
func (s *apiSession) work(ctx context.Context, manager *identity.Manager, id identity.Identity) (rejected *x509.Certificate) {
	c, err := s.clientAs(credentials{certificate: &id.Certificate})
	if err != nil {
		s.options.Log.Error("Connecting to the API server failed", "error", err.Error())
		_ = backoff.Sleep(ctx, longestPause)
		return nil
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	rejections := make(chan struct{}, 1)
	all.Go(func() {
		if errors.Is(s.follower.Run(ctx, c), identity.ErrRejected) {
			wake(rejections)
		}
	})
	all.Go(func() { publishRouterMAC(ctx, s.state, c, s.report, s.options.Log) })
	renewed := make(chan struct{})
	all.Go(func() { manager.Renew(ctx, s.requester(c), id); close(renewed) })
	select {
	case <-ctx.Done():
	case <-renewed:
	case <-s.cuts:
		s.options.Log.Info("Connecting to the API server again: a network was created")
	case <-rejections:
		s.options.Log.Warn("Certificate rejected; requesting another one", "expires", id.Leaf.NotAfter)
		return id.Leaf
	}
	return nil
}

// clientAs returns a client for the API server of the flags, or else for that of the kubelet.
func (s *apiSession) clientAs(c credentials) (*kubeapi.Client, error) {
	var a access
	var err error
	o := s.options
	if o.Server == "" || o.CAFile == "" {
		if a, err = readKubeconfig(o.BootstrapKubeconfig); err != nil {
			return nil, fmt.Errorf("finding the API server: %w", err)
		}
	}
	if o.CAFile != "" {
		if a.ca, err = readFile(o.CAFile); err != nil {
			return nil, fmt.Errorf("reading the CA of the API server: %w", err)
		}
	}
	return kubeapi.New(kubeapi.Options{
		Server: identity.Server{
			Address: cmp.Or(o.Server, a.server), CA: a.ca, Dial: o.Dial,
			Pings: http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		},
		Certificate: c.certificate, Token: c.token, UserAgent: "hybrid-overlay-node",
	})
}

// bootstrap requests a certificate as the kubelet.
func (s *apiSession) bootstrap(ctx context.Context, m *identity.Manager) (identity.Identity, error) {
	kubelet, err := readKubeconfig(s.options.BootstrapKubeconfig)
	if err != nil {
		return identity.Identity{}, fmt.Errorf("reading the kubelet's identity: %w", err)
	}
	c, err := s.clientAs(kubelet.credentials)
	if err != nil {
		return identity.Identity{}, err
	}
	defer c.Close()
	return m.Request(ctx, s.requester(c))
}

func (s *apiSession) requester(c *kubeapi.Client) requester {
	pending := func(name string, isApproved bool) {
		s.report.setOne(api.ReasonOverlayCertificatePending, waitsFor(name, s.options.Node, isApproved))
	}
	return requester{Requester: kubeapi.Requester{Client: c, Duration: s.options.CertDuration, Pending: pending}, node: s.options.Node, report: s.report}
}

// removeOldCertificates removes certificates that are no longer used.
func (s *apiSession) removeOldCertificates() {
	removed, err := removeOld(s.options.CertDir)
	if err != nil {
		s.options.Log.Warn("Removing old certificates failed", "error", err.Error())
	}
	if len(removed) > 0 {
		s.options.Log.Info("Old certificates removed", "files", removed)
	}
}
