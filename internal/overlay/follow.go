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

	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/identity"
)

const (
	// watchWithin ends a watch, which then goes on anew; nearly as much again is added by chance, so that hosts do not all come back
	// at once.
	watchWithin = 5 * time.Minute
	// allKnownWithin is how long a watch may take until it has sent all Nodes that there are.
	allKnownWithin = time.Minute
	// pageSize is how many Nodes come at a time where all are listed.
	pageSize = 250
)

// follower keeps the state equal to the Nodes of the cluster. It goes on where it was when it gets another client.
type follower struct {
	state *state
	log   *slog.Logger
	// version is that of the last Node that was seen; empty when all have to be read.
	version string
	// lists is true when the API server cannot begin a watch with what there is.
	lists bool
	said  string
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
			f.version = "" // we were away for too long
		}
		if time.Since(began) > longestPause {
			failed.reset()
		}
		if err == nil && time.Since(began) > firstPause {
			continue
		}
		f.sayOnce(err)
		_ = backoff.Sleep(ctx, failed.next())
	}
	return ctx.Err()
}

func (f *follower) sayOnce(err error) {
	text := "the watch ended as soon as it began"
	if err != nil {
		text = err.Error()
	}
	if text != f.said {
		f.log.Warn("Watching Nodes failed; keeping what is known of them", "error", text)
	}
	f.said = text
}

// follow watches until the watch ends. It begins with all Nodes when they are not known.
func (f *follower) follow(ctx context.Context, c *client) error {
	if f.version == "" && f.lists {
		if err := f.list(ctx, c); err != nil {
			return fmt.Errorf("listing Nodes: %w", err)
		}
	}
	err := f.watch(ctx, c)
	if f.version == "" && hasCode(err, http.StatusUnprocessableEntity, http.StatusBadRequest) {
		f.lists = true
		return f.follow(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("watching Nodes: %w", err)
	}
	return nil
}

// watch goes on from the version, or begins with all Nodes.
func (f *follower) watch(ctx context.Context, c *client) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	seconds := int((watchWithin + rand.N(watchWithin)).Seconds())
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(seconds)}}
	f.log.Debug("Watching Nodes", "from", f.version, "seconds", seconds)
	nodes := map[string]Node{}
	if f.version == "" {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		late := time.AfterFunc(allKnownWithin, func() { cancel(errNotAllKnown) })
		defer late.Stop()
		body, err := c.open(ctx, http.MethodGet, "/api/v1/nodes?"+query.Encode(), "", nil)
		if err == nil {
			defer body.Close()
			err = readEvents(body, func(e event) error { return f.begin(nodes, e, late) })
		}
		if errors.Is(context.Cause(ctx), errNotAllKnown) {
			f.lists = true
			return errNotAllKnown
		}
		return err
	}
	query.Set("resourceVersion", f.version)
	body, err := c.open(ctx, http.MethodGet, "/api/v1/nodes?"+query.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return readEvents(body, f.see)
}

// errNotAllKnown is an API server that does not know of watches that begin with what there is.
var errNotAllKnown = errors.New("the API server does not tell when it has sent all Nodes; they are listed instead")

// begin collects the Nodes of a watch until all are known, and goes on from there.
func (f *follower) begin(nodes map[string]Node, e event, late *time.Timer) error {
	if f.version != "" {
		return f.see(e)
	}
	switch e.Type {
	case "ADDED", "MODIFIED":
		nodes[e.Object.Metadata.Name] = e.Object.node()
	case "DELETED":
		delete(nodes, e.Object.Metadata.Name)
	case "BOOKMARK":
		if e.Object.Metadata.Annotations.AllKnown == "true" {
			late.Stop()
			f.know(nodes, e.Object.Metadata.ResourceVersion)
		}
	}
	return nil
}

// know takes notice of all Nodes.
func (f *follower) know(nodes map[string]Node, version string) {
	f.state.replace(nodes)
	f.version, f.said = version, ""
	f.log.Info("Nodes are known", "nodes", len(nodes), "version", version)
}

// see takes notice of a change.
func (f *follower) see(e event) error {
	f.version, f.said = e.Object.Metadata.ResourceVersion, ""
	f.log.Debug("Node changed", "type", e.Type, "node", e.Object.Metadata.Name, "version", f.version)
	switch e.Type {
	case "ADDED", "MODIFIED":
		f.state.put(e.Object.node())
	case "DELETED":
		f.state.remove(e.Object.Metadata.Name)
	}
	return nil
}

// list reads all Nodes by pages. Each is forgotten but for what is needed of it while it is read.
func (f *follower) list(ctx context.Context, c *client) error {
	nodes := map[string]Node{}
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		p, err := listPage(ctx, c, query, func(o object) { nodes[o.Metadata.Name] = o.node() })
		if err != nil {
			return err
		}
		if p.Continue == "" {
			f.know(nodes, p.ResourceVersion)
			return nil
		}
		query.Set("continue", p.Continue)
	}
}

func listPage(ctx context.Context, c *client, query url.Values, each func(object)) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, allKnownWithin)
	defer cancel()
	body, err := c.open(ctx, http.MethodGet, "/api/v1/nodes?"+query.Encode(), "", nil)
	if err != nil {
		return page{}, err
	}
	defer body.Close()
	return readList(body, each)
}

// tell tells the cluster the address of this host's router, whenever it does not know it.
func tell(ctx context.Context, s *state, c *client, log *slog.Logger) {
	var failed pauses
	for ctx.Err() == nil {
		mac, differs := s.toTell()
		if !differs {
			failed.reset()
			select {
			case <-ctx.Done():
			case <-s.unreported:
			}
			continue
		}
		if err := c.annotate(ctx, s.own, map[string]string{RouterMACAnnotation: mac}); err != nil {
			if ctx.Err() == nil {
				log.Warn("Annotating the Node with the address of this host's router failed", "error", err.Error())
			}
			_ = backoff.Sleep(ctx, failed.next())
			continue
		}
		log.Info("The cluster knows the address of this host's router", "address", mac)
		s.told(mac)
	}
}
