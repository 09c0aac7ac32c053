package daemon

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/identity"
)

// errRefused means that the cluster refused the request, so that asking again with the same key is of no use.
var errRefused = errors.New("the certificate request was refused")

// errRejected ends the work with a certificate that the cluster does not accept, although it seems valid here: one of the
// clocks may be wrong.
var errRejected = errors.New("the API server does not accept the certificate")

// identify returns WICD's own certificate: the one on the host, unless it was rejected, or a new one. It tries until it
// has one, or ctx is done.
func (l *life) identify(ctx context.Context, rejected *x509.Certificate) (identity.Identity, error) {
	retry := backoff.New()
	for {
		id, err := credentials.ReadIdentity(l.host.Disk, l.record.Node, time.Now())
		if err == nil && !id.Leaf.Equal(rejected) {
			return id, nil
		}
		if id, err = l.bootstrap(ctx); err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return identity.Identity{}, ctx.Err()
		}
		l.log.Warn("Certificate is not there yet", "error", err.Error())
		if err := backoff.Sleep(ctx, pauseAfter(err, retry)); err != nil {
			return identity.Identity{}, err
		}
	}
}

func pauseAfter(err error, retry *backoff.Backoff) time.Duration {
	if errors.Is(err, errRefused) {
		return identity.RefusedPause
	}
	return retry.Next()
}

// bootstrap asks for a certificate with what else shows who we are: the token of the join, or, once that is gone or worth
// nothing any more, the kubelet's certificate. So a host whose cluster was away for longer than our certificate lived
// comes back by itself.
func (l *life) bootstrap(ctx context.Context) (identity.Identity, error) {
	token, err := credentials.BootstrapToken(l.host.Disk)
	if err == nil {
		id, err := l.requestAs(ctx, apiCredentials{token: token})
		if !apierrors.IsUnauthorized(err) {
			return id, err
		}
	}
	kubelet, errKubelet := credentials.ReadKubeletIdentity(l.host.Disk, l.record.Node, time.Now())
	if errKubelet != nil {
		return identity.Identity{}, fmt.Errorf("neither the bootstrap token (%w) nor the kubelet's certificate (%w) can be used; the operator joins this host again", cmp.Or(err, errExpiredToken), errKubelet)
	}
	return l.requestAs(ctx, apiCredentials{certificate: &kubelet.Certificate})
}

// errExpiredToken is why a token is of no use that is there.
var errExpiredToken = errors.New("the API server does not know it")

func (l *life) requestAs(ctx context.Context, c apiCredentials) (identity.Identity, error) {
	client, err := newAPI(l.host, l.record.Bootstrap, c)
	if err != nil {
		return identity.Identity{}, err
	}
	defer client.close()
	return l.request(ctx, client)
}

// renew waits until a fifth of the certificate's life is left, and replaces it. It returns when there is a new one,
// when the old one has expired, or when ctx is done.
func (l *life) renew(ctx context.Context, client *apiClient, id identity.Identity) {
	at := id.Renewal(rand.Float64())
	if backoff.Sleep(ctx, id.LeastUse()) != nil || identity.AwaitClock(ctx, at, time.Now) != nil {
		return
	}
	retry := backoff.New()
	for time.Now().Before(id.Leaf.NotAfter) {
		_, err := l.request(ctx, client)
		if err == nil || ctx.Err() != nil {
			return
		}
		l.log.Warn("Certificate could not be renewed", "error", err.Error(), "expires", id.Leaf.NotAfter)
		wait := min(pauseAfter(err, retry), time.Until(id.Leaf.NotAfter))
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// request has a certificate issued and keeps it. The key is on disk before the request is made, so that a restart goes
// on waiting for the same request.
func (l *life) request(ctx context.Context, client *apiClient) (identity.Identity, error) {
	p, err := credentials.PendingRequest(l.host.Disk, l.record.Node)
	if err != nil {
		return identity.Identity{}, err
	}
	l.log.Info("Requesting certificate", "request", p.Name)
	issued, err := awaitCertificate(ctx, client, p)
	if errors.Is(err, errRefused) {
		return identity.Identity{}, errors.Join(err, l.host.Disk.Remove(credentials.PendingFile))
	}
	if err != nil {
		return identity.Identity{}, fmt.Errorf("requesting certificate %s: %w", p.Name, err)
	}
	whole := append(issued, p.Key...)
	id, err := identity.Parse(whole, credentials.NameOf(l.record.Node), time.Now())
	if err != nil {
		return identity.Identity{}, errors.Join(fmt.Errorf("%w: what was issued for %s is of no use: %w", errRefused, p.Name, err),
			l.host.Disk.Remove(credentials.PendingFile))
	}
	if _, err := l.host.Disk.WriteFile(credentials.WICDFile, string(whole)); err != nil {
		return identity.Identity{}, fmt.Errorf("keeping the certificate: %w", err)
	}
	l.did("certificate issued, valid until %s", id.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return id, l.host.Disk.Remove(credentials.PendingFile)
}

// awaitCertificate makes the request, unless it is there, and waits until it is answered. The API server removes
// requests that nobody answered for a day; then the caller's next attempt makes it again.
func awaitCertificate(ctx context.Context, client *apiClient, p identity.Pending) ([]byte, error) {
	if err := client.createRequest(ctx, p); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	for {
		request, err := client.getRequest(ctx, p.Name)
		if err != nil {
			return nil, err
		}
		if request, err = awaitAnswer(ctx, client, request); err != nil {
			return nil, err
		}
		if done, err := answered(request); done {
			return request.Status.Certificate, err
		}
	}
}

// answered tells whether a request has been issued or refused.
func answered(r *certificatesv1.CertificateSigningRequest) (bool, error) {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return true, fmt.Errorf("%w: %s is %s, %s: %s", errRefused, r.Name, c.Type, c.Reason, c.Message)
		}
	}
	return len(r.Status.Certificate) > 0, nil
}

// awaitAnswer returns the request once it is answered, or as it was last when it is gone or some time has gone by.
func awaitAnswer(ctx context.Context, client *apiClient, r *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	if done, _ := answered(r); done {
		return r, nil
	}
	w, err := client.watchRequest(ctx, r.Name, r.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	defer w.Stop()
	began := time.Now()
	for event := range w.ResultChan() {
		is, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || event.Type == watch.Deleted {
			break
		}
		if done, _ := answered(is); done {
			return is, nil
		}
	}
	if time.Since(began) < time.Second { // whoever ends watches at once must not be asked without pause
		return r, backoff.Sleep(ctx, time.Second)
	}
	return r, ctx.Err()
}
