package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
)

var (
	// ErrRefused means that the cluster refused a request; another request with the same key is useless.
	ErrRefused = errors.New("the certificate request was refused")
	// ErrRejected means that the cluster does not accept a certificate that seems valid here: one of the clocks may be wrong.
	ErrRejected = errors.New("the API server does not accept the certificate")
)

// Store stores files that only the program and administrators can read.
type Store interface {
	Read(name string) ([]byte, error)
	Write(name string, content []byte) error
	Remove(name string) error
}

// Requester requests certificates from a cluster.
type Requester interface {
	// Issue creates a request if it does not exist, and waits for the answer. It returns ErrRefused if the request was refused, and may return
	// ErrRejected if the cluster does not accept the requester's credentials.
	Issue(ctx context.Context, p Pending) (certificate []byte, err error)
}

// Manager obtains and renews a program's certificate.
type Manager struct {
	Name Name
	// Prefix is the prefix of request names.
	Prefix string
	Store  Store
	// Current is the file with the certificate and its key, Pending the one with the request for the next certificate and its key.
	Current, Pending string
	// Bootstrap calls Request with the other credentials of a program without a certificate.
	Bootstrap func(ctx context.Context, m *Manager) (Identity, error)
	Log       *slog.Logger
	// Issued is called with each new certificate.
	Issued func(Identity)
	// Pauses begins a series of pauses; next returns the pause after each failed attempt.
	Pauses func() (next func() time.Duration)
}

// Identify returns the certificate on the host, unless it was rejected, or a new one. It retries until it has one or ctx is done.
func (m *Manager) Identify(ctx context.Context, rejected *x509.Certificate) (Identity, error) {
	next := m.Pauses()
	for {
		id, err := m.read()
		if err == nil && !id.Leaf.Equal(rejected) {
			return id, nil
		}
		if id, err = m.Bootstrap(ctx, m); err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return Identity{}, ctx.Err()
		}
		m.Log.Warn("Requesting a certificate failed", "error", err.Error())
		if err := backoff.Sleep(ctx, pauseAfter(err, next)); err != nil {
			return Identity{}, err
		}
	}
}

func (m *Manager) read() (Identity, error) {
	b, err := m.Store.Read(m.Current)
	if err != nil {
		return Identity{}, err
	}
	return Parse(b, m.Name, time.Now())
}

func pauseAfter(err error, next func() time.Duration) time.Duration {
	if errors.Is(err, ErrRefused) {
		return RefusedPause
	}
	return next()
}

// Renew waits until the certificate is due for renewal, at 75% to 85% of its life, and replaces it. It returns when there is a new certificate,
// when the old one has expired or is rejected, or when ctx is done.
func (m *Manager) Renew(ctx context.Context, r Requester, id Identity) {
	at := id.renewal(rand.Float64())
	if backoff.Sleep(ctx, id.leastUse()) != nil || AwaitClock(ctx, at, time.Now) != nil {
		return
	}
	next := m.Pauses()
	for time.Now().Before(id.Leaf.NotAfter) {
		_, err := m.Request(ctx, r)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrRejected) {
			return
		}
		m.Log.Warn("Renewing the certificate failed", "error", err.Error(), "expires", id.Leaf.NotAfter)
		if backoff.Sleep(ctx, min(pauseAfter(err, next), time.Until(id.Leaf.NotAfter))) != nil {
			return
		}
	}
}

// Request has a certificate issued and stores it. The key is on disk before the request is created, so that a restarted program continues to wait
// for the same request.
func (m *Manager) Request(ctx context.Context, r Requester) (Identity, error) {
	p, err := m.pendingRequest()
	if err != nil {
		return Identity{}, err
	}
	m.Log.Info("Requesting a certificate", "request", p.Name)
	issued, err := r.Issue(ctx, p)
	if errors.Is(err, ErrRefused) {
		return Identity{}, errors.Join(err, m.Store.Remove(m.Pending))
	}
	if err != nil {
		return Identity{}, fmt.Errorf("requesting certificate %s: %w", p.Name, err)
	}
	whole := append(issued, p.Key...)
	id, err := Parse(whole, m.Name, time.Now())
	if err != nil {
		return Identity{}, errors.Join(fmt.Errorf("%w: the certificate issued for %s is unusable: %w", ErrRefused, p.Name, err), m.Store.Remove(m.Pending))
	}
	if err := m.Store.Write(m.Current, whole); err != nil {
		return Identity{}, fmt.Errorf("storing the certificate: %w", err)
	}
	m.Issued(id)
	return id, m.Store.Remove(m.Pending)
}
