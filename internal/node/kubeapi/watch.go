package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// watchTimeout ends a watch, which is then restarted. A random time of up to the same length is added, so that hosts do not all reconnect at once.
const watchTimeout = 5 * time.Minute

// Types of events.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
	failed   = "ERROR"
)

// Event is one event of a watch.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// Watch calls each for every event of a watch of a collection until a call fails, ctx is done, or the API server ends the watch, which is not an error.
func (c *Client) Watch(ctx context.Context, path string, query url.Values, each func(Event) error) error {
	all := maps.Clone(query)
	if all == nil {
		all = url.Values{}
	}
	all.Set("watch", "true")
	all.Set("timeoutSeconds", strconv.Itoa(int((watchTimeout + rand.N(watchTimeout)).Seconds())))
	body, err := c.open(ctx, http.MethodGet, path+"?"+all.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return readEvents(body, each)
}

func readEvents(r io.Reader, each func(Event) error) error {
	decoder := json.NewDecoder(r)
	for {
		var e Event
		if err := decoder.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("reading an event: %w", err)
		}
		if e.Type == failed {
			var status struct {
				Code            int
				Reason, Message string
			}
			err := json.Unmarshal(e.Object, &status)
			return errors.Join(err, &Error{status.Code, status.Reason, status.Message})
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// Watcher delivers the events of a watch in a channel.
type Watcher[T any] struct {
	// Events is closed when the watch has ended.
	Events <-chan TypedEvent[T]

	cancel context.CancelFunc
	err    error
}

// TypedEvent is an event with its decoded object.
type TypedEvent[T any] struct {
	Type   string
	Object *T
}

// WatchOne watches one object of a collection from a resource version; an empty one begins with its current state. The caller stops the watch.
func WatchOne[T any](ctx context.Context, c *Client, path, name, version string) *Watcher[T] {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan TypedEvent[T])
	w := &Watcher[T]{Events: events, cancel: cancel}
	query := url.Values{"fieldSelector": {"metadata.name=" + name}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}}
	go func() {
		defer close(events)
		w.err = c.Watch(ctx, path, query, func(e Event) error {
			typed := TypedEvent[T]{Type: e.Type, Object: new(T)}
			if err := json.Unmarshal(e.Object, typed.Object); err != nil {
				return fmt.Errorf("reading an event: %w", err)
			}
			select {
			case events <- typed:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return w
}

// Err returns why the watch has ended, after Events was closed; nil if the API server ended it as usual.
func (w *Watcher[T]) Err() error { return w.err }

// Stop ends the watch and waits until it has ended.
func (w *Watcher[T]) Stop() {
	w.cancel()
	for range w.Events { // until it is closed
		continue
	}
}
