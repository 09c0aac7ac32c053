// Package dashboard serves the page of kubectl windows dashboard: the state of all Windows hosts in the user's browser, with the user's permissions,
// while the command runs. It is read-only and installs nothing in the cluster.
//
// The page shows a fleetstatus.Fleet that is computed from objects that this process watches. The browser receives changes as server-sent
// events. The server listens on 127.0.0.1, and guard decides which requests may read from it. docs/dashboard.md describes the page.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

const (
	// idleStop is how long the command runs without an open page.
	idleStop = 8 * time.Hour
	// firstRead is how long an export waits until all objects have been read.
	firstRead = 30 * time.Second
)

// Options configures the page.
type Options struct {
	// Config connects to the API server with the user's credentials.
	Config *rest.Config
	// Namespace is the operator's namespace.
	Namespace string
	// Cluster is the cluster name that the page shows, such as that of the kubeconfig's context.
	Cluster string
	// Started is called with the page's address when the page can be opened. The address contains a secret.
	Started func(address string)
}

// Run serves the page until the context ends, or until no page has been open for eight hours.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, files, err := clients(o.Config)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening on 127.0.0.1: %w", err)
	}
	from := newSource(c, o.Namespace)
	s := &server{guard: newGuard(listener.Addr()), hub: newHub(from, o.Cluster), client: c, files: files, now: time.Now}
	s.touch()
	go from.run(ctx)
	go s.hub.run(ctx)
	web := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	go func() {
		_ = wait.PollUntilContextCancel(ctx, time.Minute, false, func(context.Context) (bool, error) { return s.idle() > idleStop, nil })
		cancel()
	}()
	o.Started(s.link())
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Export writes the state of the fleet as one self-contained file, for tickets.
func Export(ctx context.Context, o Options, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, _, err := clients(o.Config)
	if err != nil {
		return err
	}
	from := newSource(c, o.Namespace)
	go from.run(ctx)
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, firstRead, true, func(context.Context) (bool, error) { return from.ready(), nil })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("reading the cluster: no response from the API server within %s", firstRead)
	}
	if _, reason := from.lost(); reason != "" {
		return fmt.Errorf("reading the cluster: %s", reason)
	}
	return report(w, fleetstatus.Of(from.input()), o.Cluster)
}

// clients returns the clients for objects and logs. Watches have no deadline; lists have listDeadline.
func clients(config *rest.Config) (client.WithWatch, *nodefiles.Client, error) {
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
	return c, files, err
}
