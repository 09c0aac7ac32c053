// Package dashboard is the page of kubectl windows dashboard: the state of all Windows hosts in the browser of the user, with the rights
// of the user, for as long as the command runs. It reads, and changes nothing. Nothing is installed in the cluster for it.
//
// What is shown is a fleetstatus.Fleet, made of objects that this process watches; the browser is sent what changed as server-sent events.
// The server listens on 127.0.0.1, and guard says who may read from it. docs/dashboard.md describes the page.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/fleetstatus"
)

const (
	// idleStop is how long the command runs without an open page.
	idleStop = 8 * time.Hour
	// firstRead is how long an export waits until everything was read.
	firstRead = 30 * time.Second
)

// Options say what to show.
type Options struct {
	// Config is how to reach the API server, with the credentials of the user.
	Config *rest.Config
	// Namespace is that of the operator.
	Namespace string
	// Cluster is the name of the cluster that the page shows, such as that of the kubeconfig's context.
	Cluster string
	// Started is told the address to open, when the page can be opened. It contains a secret.
	Started func(address string)
	// Now is the clock.
	Now func() time.Time
}

// Run serves the page until the context ends, or until no page was open for eight hours.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, reader, err := clients(o.Config)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening on 127.0.0.1: %w", err)
	}
	from := newSource(c, o.Namespace, o.Now)
	s := &server{guard: newGuard(listener.Addr()), hub: newHub(from, o.Cluster), client: c, logs: reader, now: o.Now}
	s.touch()
	go from.run(ctx)
	go s.hub.run(ctx)
	web := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	go s.stopWhenIdle(ctx, cancel)
	o.Started(s.link())
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stopWhenIdle ends everything when no page was open for long.
func (s *server) stopWhenIdle(ctx context.Context, stop context.CancelFunc) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if s.idle() > idleStop {
				stop()
				return
			}
		}
	}
}

// Export writes the state of the fleet as one file that needs nothing else, for tickets.
func Export(ctx context.Context, o Options, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, _, err := clients(o.Config)
	if err != nil {
		return err
	}
	from := newSource(c, o.Namespace, o.Now)
	go from.run(ctx)
	deadline := time.After(firstRead)
	for !from.ready() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("reading the cluster: no answer from the API server within %s", firstRead)
		case <-from.changed:
		case <-time.After(50 * time.Millisecond):
		}
	}
	if _, why := from.lost(); why != "" {
		return fmt.Errorf("reading the cluster: %s", why)
	}
	return report(w, fleetstatus.Of(from.input()), o.Cluster)
}

// clients are those of the objects and of the logs. Watches have no deadline of their own; lists have listDeadline.
func clients(config *rest.Config) (client.WithWatch, *logs, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	options, err := session.ClientOptions()
	if err != nil {
		return nil, nil, err
	}
	c, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, nil, err
	}
	files, err := nodefiles.New(config)
	if err != nil {
		return nil, nil, err
	}
	return c, &logs{files}, nil
}
