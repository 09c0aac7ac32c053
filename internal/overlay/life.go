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

	"github.com/windows-machine-config/wmco/internal/identity"
)

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
func (l *life) work(ctx context.Context, id identity.Identity) (rejected *x509.Certificate) {
	c, err := l.clientAs(credentials{certificate: &id.Certificate})
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
		l.options.Log.Warn("The API server does not accept the certificate; asking for another one", "expires", id.Leaf.NotAfter)
		return id.Leaf
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
func (l *life) identify(ctx context.Context, rejected *x509.Certificate) (identity.Identity, error) {
	var failed pauses
	for {
		id, err := readIdentity(l.file(currentFile), l.options.Node, time.Now())
		if err == nil && !id.Leaf.Equal(rejected) {
			return id, nil
		}
		if id, err = l.bootstrap(ctx); err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return identity.Identity{}, ctx.Err()
		}
		l.options.Log.Warn("The certificate is not there yet", "error", err.Error())
		if err := pause(ctx, pauseAfter(err, &failed)); err != nil {
			return identity.Identity{}, err
		}
	}
}

func pauseAfter(err error, failed *pauses) time.Duration {
	if errors.Is(err, errRefused) {
		return identity.RefusedPause
	}
	return failed.next()
}

// bootstrap asks for a certificate as the kubelet.
func (l *life) bootstrap(ctx context.Context) (identity.Identity, error) {
	kubelet, err := readKubeconfig(l.options.BootstrapKubeconfig)
	if err != nil {
		return identity.Identity{}, fmt.Errorf("reading the kubelet's identity: %w", err)
	}
	c, err := l.clientAs(kubelet.credentials)
	if err != nil {
		return identity.Identity{}, err
	}
	defer c.close()
	return l.request(ctx, c)
}

// request has a certificate issued and keeps it. The key is on disk before the request is made, so that a restart goes on waiting
// for the same request.
func (l *life) request(ctx context.Context, c *client) (identity.Identity, error) {
	file := l.file(pendingFile)
	p, err := pendingRequest(file, l.options.Node)
	if err != nil {
		return identity.Identity{}, err
	}
	l.options.Log.Info("Requesting a certificate; OVN-Kubernetes approves it", "request", p.Name)
	issued, err := c.awaitCertificate(ctx, p, l.options.CertDuration)
	if errors.Is(err, errRefused) {
		return identity.Identity{}, errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return identity.Identity{}, fmt.Errorf("requesting certificate %s: %w", p.Name, err)
	}
	whole := append(issued, p.Key...)
	id, err := identity.Parse(whole, nameOf(l.options.Node), time.Now())
	if err != nil {
		return identity.Identity{}, errors.Join(fmt.Errorf("%w: what was issued for %s is of no use: %w", errRefused, p.Name, err), os.Remove(file))
	}
	if err := writeFile(l.file(currentFile), whole); err != nil {
		return identity.Identity{}, fmt.Errorf("keeping the certificate: %w", err)
	}
	l.options.Log.Info("Certificate issued", "expires", id.Leaf.NotAfter.UTC().Format(time.RFC3339))
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
func (l *life) renew(ctx context.Context, c *client, id identity.Identity) {
	at := id.Renewal(rand.Float64())
	if pause(ctx, id.LeastUse()) != nil || identity.AwaitClock(ctx, at, time.Now) != nil {
		return
	}
	var failed pauses
	for time.Now().Before(id.Leaf.NotAfter) {
		_, err := l.request(ctx, c)
		if err == nil || ctx.Err() != nil {
			return
		}
		if hasCode(err, http.StatusUnauthorized) {
			return // the follower sees that, too, and the kubelet's identity is asked
		}
		l.options.Log.Warn("The certificate could not be renewed", "error", err.Error(), "expires", id.Leaf.NotAfter)
		if pause(ctx, min(pauseAfter(err, &failed), time.Until(id.Leaf.NotAfter))) != nil {
			return
		}
	}
}
