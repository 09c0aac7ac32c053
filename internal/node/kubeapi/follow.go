package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/identity"
)

const (
	// initialTimeout is how long a watch may take until it has sent all existing objects, and a page of a list.
	initialTimeout = time.Minute
	// pageSize is the number of objects in one page of a list.
	pageSize = 250
	// steadyAfter is how long a watch must last so that pauses start again with the shortest.
	steadyAfter = 15 * time.Second
)

// Store holds a copy of the objects of a kind, or of parts of them.
type Store[T any] interface {
	// Replace receives all objects. The store owns the map.
	Replace(all map[types.NamespacedName]T)
	Put(key types.NamespacedName, object T)
	Remove(key types.NamespacedName)
}

// Follower keeps a Store current. With the next client it continues at the last version.
type Follower[T any] struct {
	// Path is the collection, such as /api/v1/nodes, Kind the word for its objects in the log.
	Path, Kind string
	// Name restricts it to the object with this name; empty for all objects.
	Name string
	// Read returns what the store keeps of an object.
	Read  func(json.RawMessage) (T, error)
	Store Store[T]
	Log   *slog.Logger
	// Failed, if not nil, is called with the error of each failed attempt, before the next one.
	Failed func(error)

	// version is the resource version of the last event; empty if all objects must be read.
	version string
	// listOnly is true if the API server cannot start a watch with the existing objects (KEP-3157).
	listOnly  bool
	lastError string
}

// metadata has the fields of objects and lists that a Follower reads.
type metadata struct {
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
		Annotations     struct {
			// AllKnown is set on the bookmark after the last object that existed when the watch started.
			AllKnown string `json:"k8s.io/initial-events-end"`
		} `json:"annotations"`
	} `json:"metadata"`
}

func (m metadata) key() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Metadata.Namespace, Name: m.Metadata.Name}
}

// Run follows until ctx is done. It returns identity.ErrRejected if the API server rejects the client.
func (f *Follower[T]) Run(ctx context.Context, c *Client) error {
	retry, reread := newRetry(), newRetry()
	for ctx.Err() == nil {
		began := time.Now()
		err := f.follow(ctx, c)
		if time.Since(began) > steadyAfter {
			retry, reread = newRetry(), newRetry()
		}
		pause := retry
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case HasCode(err, http.StatusUnauthorized):
			return identity.ErrRejected
		case HasCode(err, http.StatusGone): // it was disconnected for too long, but the API server answers
			f.version, pause = "", reread
		case err == nil && time.Since(began) > time.Second:
			continue
		}
		f.logOnce(err)
		if err != nil && f.Failed != nil {
			f.Failed(err)
		}
		_ = backoff.Sleep(ctx, pause.Next())
	}
	return ctx.Err()
}

// query returns the query that selects the objects, with one more parameter.
func (f *Follower[T]) query(name, value string) url.Values {
	query := url.Values{name: {value}}
	if f.Name != "" {
		query.Set("fieldSelector", "metadata.name="+f.Name)
	}
	return query
}

func newRetry() *backoff.Backoff { return backoff.Between(time.Second, 15*time.Second) }

func (f *Follower[T]) logOnce(err error) {
	text := "the watch ended immediately"
	if err != nil {
		text = err.Error()
	}
	if text != f.lastError {
		f.Log.Warn("Watching "+f.Kind+" failed; continuing with the last known ones", "error", text)
	}
	f.lastError = text
}

// follow watches until the watch ends. If the objects are unknown, it starts with all of them.
func (f *Follower[T]) follow(ctx context.Context, c *Client) error {
	if f.version == "" && f.listOnly {
		if err := f.list(ctx, c); err != nil {
			return fmt.Errorf("listing %s: %w", f.Kind, err)
		}
	}
	err := f.watch(ctx, c)
	if f.version == "" && HasCode(err, http.StatusUnprocessableEntity, http.StatusBadRequest) {
		f.listOnly = true
		return f.follow(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", f.Kind, err)
	}
	return nil
}

// errNoInitialEvents means that the API server does not support sendInitialEvents.
var errNoInitialEvents = errors.New("the API server does not report when it has sent all objects; they are listed instead")

// watch continues from the version, or starts with all objects.
func (f *Follower[T]) watch(ctx context.Context, c *Client) error {
	query := f.query("allowWatchBookmarks", "true")
	f.Log.Debug("Watching "+f.Kind, "from", f.version)
	if f.version != "" {
		query.Set("resourceVersion", f.version)
		return c.Watch(ctx, f.Path, query, f.apply)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	query.Set("sendInitialEvents", "true")
	query.Set("resourceVersionMatch", "NotOlderThan")
	late := time.AfterFunc(initialTimeout, func() { cancel(errNoInitialEvents) })
	defer late.Stop()
	all := map[types.NamespacedName]T{}
	err := c.Watch(ctx, f.Path, query, func(e Event) error { return f.applyInitial(all, e, late) })
	if errors.Is(context.Cause(ctx), errNoInitialEvents) {
		f.listOnly = true
		return errNoInitialEvents
	}
	return err
}

// applyInitial collects the objects of a watch until all are known. Later events change the store.
func (f *Follower[T]) applyInitial(all map[types.NamespacedName]T, e Event, late *time.Timer) error {
	if f.version != "" {
		return f.apply(e)
	}
	m, err := readMetadata(e.Object)
	if err != nil {
		return err
	}
	switch e.Type {
	case Added, Modified:
		return f.collect(all, m, e.Object)
	case Deleted:
		delete(all, m.key())
	case Bookmark:
		if m.Metadata.Annotations.AllKnown == "true" {
			late.Stop()
			f.setAll(all, m.Metadata.ResourceVersion)
		}
	}
	return nil
}

func (f *Follower[T]) collect(all map[types.NamespacedName]T, m metadata, object json.RawMessage) (err error) {
	all[m.key()], err = f.Read(object)
	return err
}

// setAll replaces all objects.
func (f *Follower[T]) setAll(all map[types.NamespacedName]T, version string) {
	count := len(all)
	f.Store.Replace(all)
	f.version, f.lastError = version, ""
	f.Log.Info("All "+f.Kind+" read", "count", count, "version", version)
}

// apply applies one event of the watch.
func (f *Follower[T]) apply(e Event) error {
	m, err := readMetadata(e.Object)
	if err != nil {
		return err
	}
	f.Log.Debug("Object of "+f.Kind+" changed", "type", e.Type, "name", m.Metadata.Name, "version", m.Metadata.ResourceVersion)
	switch e.Type {
	case Added, Modified:
		object, err := f.Read(e.Object)
		if err != nil {
			return fmt.Errorf("reading %s: %w", m.Metadata.Name, err)
		}
		f.Store.Put(m.key(), object)
	case Deleted:
		f.Store.Remove(m.key())
	}
	f.version, f.lastError = m.Metadata.ResourceVersion, ""
	return nil
}

func readMetadata(object json.RawMessage) (m metadata, err error) {
	if err := json.Unmarshal(object, &m); err != nil {
		return m, fmt.Errorf("reading an event: %w", err)
	}
	if m.Metadata.ResourceVersion == "" {
		return m, errors.New("reading an event: its object has no resource version")
	}
	return m, nil
}

// list reads all objects page by page.
func (f *Follower[T]) list(ctx context.Context, c *Client) error {
	all := map[types.NamespacedName]T{}
	query := f.query("limit", strconv.Itoa(pageSize))
	for {
		var page struct {
			metadata
			Items []json.RawMessage `json:"items"`
		}
		if err := c.Get(ctx, f.Path, query, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			m, err := readMetadata(item)
			if err == nil {
				err = f.collect(all, m, item)
			}
			if err != nil {
				return err
			}
		}
		if page.Metadata.Continue == "" {
			f.setAll(all, page.Metadata.ResourceVersion)
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}
