package overlay

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// refusedPause is how long to wait after a refusal before asking again, and at least before a certificate is renewed.
const refusedPause = 5 * time.Minute

// life is all that is done with the API server.
type life struct {
	options  Options
	state    *state
	follower *follower
	// cuts has a message when the connections of this host have been cut: waiting for them to fail could take minutes.
	cuts chan struct{}
}

func (l *life) file(name string) string { return filepath.Join(l.options.CertDir, name) }

// run works until ctx is done, with one certificate after the other.
func (l *life) run(ctx context.Context) {
	var rejected *x509.Certificate
	for ctx.Err() == nil {
		id, err := l.identify(ctx, rejected)
		if err != nil {
			return // ctx is done
		}
		l.tidy()
		rejected = l.work(ctx, id)
	}
}

// work follows Nodes and tells the router's address until the certificate is renewed or rejected, or the connections are cut. It
// returns the certificate when the API server does not know it.
func (l *life) work(ctx context.Context, id identity) (rejected *x509.Certificate) {
	c, err := l.clientAs(credentials{certificate: &id.certificate})
	if err != nil {
		l.options.Log.Error("The API server cannot be asked", "error", err.Error())
		_ = pause(ctx, longestPause)
		return nil
	}
	defer c.close()
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	rejections := make(chan struct{}, 1)
	all.Go(func() {
		if errors.Is(l.follower.run(ctx, c), errRejected) {
			poke(rejections)
		}
	})
	all.Go(func() { tell(ctx, l.state, c, l.options.Log) })
	renewed := make(chan struct{})
	all.Go(func() { l.renew(ctx, c, id); close(renewed) })
	select {
	case <-ctx.Done():
	case <-renewed:
	case <-l.cuts:
		l.options.Log.Info("Connecting to the API server anew: a network was created")
	case <-rejections:
		l.options.Log.Warn("The API server does not accept the certificate; asking for another one", "expires", id.leaf.NotAfter)
		return id.leaf
	}
	return nil
}

// clientAs makes a client of the API server, which is where flags say, or else where the kubelet finds it.
func (l *life) clientAs(c credentials) (*client, error) {
	var a access
	var err error
	o := l.options
	if o.Server == "" || o.CAFile == "" {
		if a, err = readKubeconfig(o.BootstrapKubeconfig); err != nil {
			return nil, fmt.Errorf("finding the API server: %w", err)
		}
	}
	if o.CAFile != "" {
		if a.ca, err = os.ReadFile(o.CAFile); err != nil {
			return nil, fmt.Errorf("reading the CA of the API server: %w", err)
		}
	}
	return newClient(o, cmp.Or(o.Server, a.server), a.ca, c)
}

// identify returns the node's certificate: the one on the host, unless it was rejected, or a new one. It tries until it has one, or
// ctx is done.
func (l *life) identify(ctx context.Context, rejected *x509.Certificate) (identity, error) {
	var failed pauses
	for {
		id, err := readIdentity(l.file(currentFile), l.options.Node, time.Now())
		if err == nil && !id.leaf.Equal(rejected) {
			return id, nil
		}
		if id, err = l.bootstrap(ctx); err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return identity{}, ctx.Err()
		}
		l.options.Log.Warn("The certificate is not there yet", "error", err.Error())
		if err := pause(ctx, pauseAfter(err, &failed)); err != nil {
			return identity{}, err
		}
	}
}

func pauseAfter(err error, failed *pauses) time.Duration {
	if errors.Is(err, errRefused) {
		return refusedPause
	}
	return failed.next()
}

// bootstrap asks for a certificate as the kubelet.
func (l *life) bootstrap(ctx context.Context) (identity, error) {
	kubelet, err := readKubeconfig(l.options.BootstrapKubeconfig)
	if err != nil {
		return identity{}, fmt.Errorf("reading the kubelet's identity: %w", err)
	}
	c, err := l.clientAs(kubelet.credentials)
	if err != nil {
		return identity{}, err
	}
	defer c.close()
	return l.request(ctx, c)
}

// request has a certificate issued and keeps it. The key is on disk before the request is made, so that a restart goes on waiting
// for the same request.
func (l *life) request(ctx context.Context, c *client) (identity, error) {
	file := l.file(pendingFile)
	p, err := pendingRequest(file, l.options.Node)
	if err != nil {
		return identity{}, err
	}
	l.options.Log.Info("Requesting a certificate; OVN-Kubernetes approves it", "request", p.name)
	issued, err := c.awaitCertificate(ctx, p, l.options.CertDuration)
	if errors.Is(err, errRefused) {
		return identity{}, errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return identity{}, fmt.Errorf("requesting certificate %s: %w", p.name, err)
	}
	whole := append(issued, p.key...)
	id, err := parseIdentity(whole, l.options.Node, time.Now())
	if err != nil {
		return identity{}, errors.Join(fmt.Errorf("%w: what was issued for %s is of no use: %w", errRefused, p.name, err), os.Remove(file))
	}
	if err := writeFile(l.file(currentFile), whole); err != nil {
		return identity{}, fmt.Errorf("keeping the certificate: %w", err)
	}
	l.options.Log.Info("Certificate issued", "expires", id.leaf.NotAfter.UTC().Format(time.RFC3339))
	return id, os.Remove(file)
}

// tidy removes certificates that are not used any more.
func (l *life) tidy() {
	removed, err := removeOld(l.options.CertDir)
	if err != nil {
		l.options.Log.Warn("Old certificates stay", "error", err.Error())
	}
	if len(removed) > 0 {
		l.options.Log.Info("Old certificates removed", "files", removed)
	}
}

// renew waits until a fifth of the certificate's life is left, and replaces it. It returns when there is a new one, when the old
// one has expired, or when ctx is done.
func (l *life) renew(ctx context.Context, c *client, id identity) {
	// A certificate is used for a while even if the clock says that it is due: by a clock that is ahead, each new one would be.
	whole := id.leaf.NotAfter.Sub(id.leaf.NotBefore)
	if pause(ctx, min(refusedPause, whole/10)) != nil || awaitClock(ctx, renewalOf(id, rand.Float64())) != nil {
		return
	}
	var failed pauses
	for time.Now().Before(id.leaf.NotAfter) {
		_, err := l.request(ctx, c)
		if err == nil || ctx.Err() != nil {
			return
		}
		if hasCode(err, http.StatusUnauthorized) {
			return // the follower sees that, too, and the kubelet's identity is asked
		}
		l.options.Log.Warn("The certificate could not be renewed", "error", err.Error(), "expires", id.leaf.NotAfter)
		if pause(ctx, min(pauseAfter(err, &failed), time.Until(id.leaf.NotAfter))) != nil {
			return
		}
	}
}

// renewalOf is when to renew a certificate: between 75% and 85% of its life, at the place that chance, from 0 to 1, gives, so that
// hosts that joined together do not renew together.
func renewalOf(id identity, chance float64) time.Time {
	whole := id.leaf.NotAfter.Sub(id.leaf.NotBefore)
	return id.leaf.NotBefore.Add(time.Duration(float64(whole) * (0.75 + 0.1*chance)))
}

// clockEvery is how often the clock is looked at by those who wait for a certain time.
const clockEvery = time.Minute

// awaitClock returns when the clock shows a time. A clock may be set, and it goes on while a virtual machine sleeps.
func awaitClock(ctx context.Context, at time.Time) error {
	for now := time.Now(); now.Before(at); now = time.Now() {
		if err := pause(ctx, min(at.Sub(now), clockEvery)); err != nil {
			return err
		}
	}
	return nil
}
