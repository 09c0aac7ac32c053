package overlay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// watchTimeout ends a watch, which is then restarted. A random time of up to the same length is added, so that hosts do not all reconnect at
	// once.
	watchTimeout = 5 * time.Minute
	// initialTimeout is how long a watch may take until it has sent all existing Nodes.
	initialTimeout = time.Minute
	// pageSize is the number of Nodes in one page of a list.
	pageSize = 250
	// maxAnswered limits what a problem quotes from an answer of the API server.
	maxAnswered = 500
)

// follower keeps the state equal to the Nodes of the cluster. With a new client it continues at the last version.
type follower struct {
	state *state
	log   *slog.Logger
	// version is the resource version of the last event; empty if all Nodes must be read.
	version string
	// listOnly is true if the API server cannot start a watch with the existing Nodes.
	listOnly  bool
	lastError string
}

// run follows until ctx is done, or the client is rejected.
func (f *follower) run(ctx context.Context, c *client) error {
	var failed pauses
	for ctx.Err() == nil {
		began := time.Now()
		err := f.follow(ctx, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case hasCode(err, http.StatusUnauthorized):
			return identity.ErrRejected
		case hasCode(err, http.StatusGone):
			f.version = "" // it was disconnected for too long
		}
		if time.Since(began) > longestPause {
			failed.reset()
		}
		if err == nil && time.Since(began) > firstPause {
			continue
		}
		f.logOnce(err)
		_ = backoff.Sleep(ctx, failed.next())
	}
	return ctx.Err()
}

func (f *follower) logOnce(err error) {
	text := "the watch ended immediately"
	if err != nil {
		text = err.Error()
	}
	if text != f.lastError {
		f.log.Warn("Watching Nodes failed; continuing with the last known ones", "error", text)
	}
	f.lastError = text
}

// follow watches Nodes until the watch ends. If the Nodes are unknown, it starts with all of them.
func (f *follower) follow(ctx context.Context, c *client) error {
	if f.version == "" && f.listOnly {
		if err := f.list(ctx, c); err != nil {
			return fmt.Errorf("listing Nodes: %w", err)
		}
	}
	err := f.watch(ctx, c)
	if f.version == "" && hasCode(err, http.StatusUnprocessableEntity, http.StatusBadRequest) {
		f.listOnly = true
		return f.follow(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("watching Nodes: %w", err)
	}
	return nil
}

// watch continues from the version, or starts with all Nodes.
func (f *follower) watch(ctx context.Context, c *client) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	seconds := int((watchTimeout + rand.N(watchTimeout)).Seconds())
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(seconds)}}
	f.log.Debug("Watching Nodes", "from", f.version, "seconds", seconds)
	nodes := map[string]Node{}
	if f.version == "" {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		late := time.AfterFunc(initialTimeout, func() { cancel(errNoInitialEvents) })
		defer late.Stop()
		body, err := c.open(ctx, http.MethodGet, "/api/v1/nodes?"+query.Encode(), "", nil)
		if err == nil {
			defer body.Close()
			err = readEvents(body, func(e event) error { return f.applyInitial(nodes, e, late) })
		}
		if errors.Is(context.Cause(ctx), errNoInitialEvents) {
			f.listOnly = true
			return errNoInitialEvents
		}
		return err
	}
	query.Set("resourceVersion", f.version)
	body, err := c.open(ctx, http.MethodGet, "/api/v1/nodes?"+query.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return readEvents(body, f.apply)
}

// errNoInitialEvents means that the API server does not support sendInitialEvents.
var errNoInitialEvents = errors.New("the API server does not report when it has sent all Nodes; they are listed instead")

// applyInitial collects the Nodes of a watch until all are known. Later events change the state.
func (f *follower) applyInitial(nodes map[string]Node, e event, late *time.Timer) error {
	if f.version != "" {
		return f.apply(e)
	}
	switch e.Type {
	case "ADDED", "MODIFIED":
		nodes[e.Object.Metadata.Name] = e.Object.node()
	case "DELETED":
		delete(nodes, e.Object.Metadata.Name)
	case "BOOKMARK":
		if e.Object.Metadata.Annotations.AllKnown == "true" {
			late.Stop()
			f.setAll(nodes, e.Object.Metadata.ResourceVersion)
		}
	}
	return nil
}

// setAll replaces all Nodes.
func (f *follower) setAll(nodes map[string]Node, version string) {
	count := len(nodes) // replace takes ownership of the map
	f.state.replace(nodes)
	f.version, f.lastError = version, ""
	f.log.Info("All Nodes read", "nodes", count, "version", version)
}

// apply applies one event of the watch.
func (f *follower) apply(e event) error {
	f.version, f.lastError = e.Object.Metadata.ResourceVersion, ""
	f.log.Debug("Node changed", "type", e.Type, "node", e.Object.Metadata.Name, "version", f.version)
	switch e.Type {
	case "ADDED", "MODIFIED":
		f.state.put(e.Object.node())
	case "DELETED":
		f.state.remove(e.Object.Metadata.Name)
	}
	return nil
}

// list reads all Nodes page by page. It stores only the fields that the overlay needs.
func (f *follower) list(ctx context.Context, c *client) error {
	nodes := map[string]Node{}
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		p, err := listPage(ctx, c, query, func(o object) { nodes[o.Metadata.Name] = o.node() })
		if err != nil {
			return err
		}
		if p.Continue == "" {
			f.setAll(nodes, p.ResourceVersion)
			return nil
		}
		query.Set("continue", p.Continue)
	}
}

func listPage(ctx context.Context, c *client, query url.Values, each func(object)) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, initialTimeout)
	defer cancel()
	body, err := c.open(ctx, http.MethodGet, "/api/v1/nodes?"+query.Encode(), "", nil)
	if err != nil {
		return page{}, err
	}
	defer body.Close()
	return readList(body, each)
}

// publishRouterMAC annotates the Node with the address of this host's router whenever the annotation differs.
func publishRouterMAC(ctx context.Context, s *state, c *client, report *reporter, log *slog.Logger) {
	var failed pauses
	for ctx.Err() == nil {
		mac, differs := s.unpublishedMAC()
		if !differs {
			report.setAnnotation("")
			failed.reset()
			select {
			case <-ctx.Done():
			case <-s.macChanged:
			}
			continue
		}
		if err := c.annotate(ctx, s.own, map[string]string{RouterMACAnnotation: mac}); err != nil {
			if ctx.Err() == nil {
				log.Warn("Annotating the Node with the address of this host's router failed", "error", err.Error())
			}
			if hasCode(err, http.StatusForbidden) {
				report.setAnnotation(deniedAnnotation(err))
			}
			_ = backoff.Sleep(ctx, failed.next())
			continue
		}
		log.Info("Node annotated with the address of this host's router", "address", mac)
		s.setPublished(mac)
	}
}

// deniedAnnotation returns the message that other nodes do not get the address of this host's router.
func deniedAnnotation(err error) string {
	return "other nodes have no route to the pods of this node, because the API server does not allow this program to write annotation " + RouterMACAnnotation +
		": ovnkube-identity of OVN-Kubernetes must run with --enable-hybrid-overlay; " + truncate.Printable(err.Error(), maxAnswered)
}
