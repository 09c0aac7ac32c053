package collect

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/supportbundle"
)

// timeout limits a collection, partTimeout each of its parts.
const (
	timeout     = time.Minute
	partTimeout = 10 * time.Second
)

// Collector writes one archive at a time.
type Collector struct {
	state.Session
	wake    state.Signal
	changed state.Signal

	mu sync.Mutex
	// requestedID is the collection that the Node requests; empty if there is none.
	requestedID string
	status      supportbundle.Status
}

// New returns a Collector, which sends wake when there is something to report.
func New(s state.Session, wake state.Signal) *Collector {
	return &Collector{Session: s, wake: wake, changed: state.NewSignal()}
}

// Run writes the requested archive, and removes it when it is no longer requested or too old, until ctx is done. Archives of an earlier process
// are removed.
func (c *Collector) Run(ctx context.Context) {
	c.remove()
	for ctx.Err() == nil {
		requested, status := c.get()
		var expires <-chan time.Time
		switch {
		case requested == "":
			c.remove()
		case status.ID != requested:
			c.remove()
			c.collect(ctx, requested)
			continue
		case status.State == supportbundle.Done:
			left := time.Until(status.Time.Add(supportbundle.Keep))
			if left <= 0 {
				c.remove()
				c.set(supportbundle.Status{ID: requested, State: supportbundle.Expired})
				continue
			}
			expires = time.After(left)
		}
		select {
		case <-ctx.Done():
		case <-c.changed:
		case <-expires:
		}
	}
}

func (c *Collector) get() (requested string, status supportbundle.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requestedID, c.status
}

func (c *Collector) set(s supportbundle.Status) {
	s.Time = time.Now().UTC().Truncate(time.Second)
	c.mu.Lock()
	c.status = s
	c.mu.Unlock()
	c.wake.Send()
}

// collect writes one archive.
func (c *Collector) collect(ctx context.Context, id string) {
	c.set(supportbundle.Status{ID: id, State: supportbundle.Collecting})
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	file := desired.Collections + `\` + supportbundle.FileName(id)
	size, sum, err := c.write(ctx, id, file)
	if err != nil {
		c.remove()
		c.Log.Warn("Collecting the node's state failed", "collection", id, "error", err.Error())
		c.set(supportbundle.Status{ID: id, State: supportbundle.Failed, Message: mask.New().Text(err.Error())})
		return
	}
	c.RecordChange("%s written, %d bytes", file, size)
	c.set(supportbundle.Status{ID: id, State: supportbundle.Done, Bytes: size, SHA256: sum})
}

// remove removes all archives.
func (c *Collector) remove() {
	names, err := c.Host.Disk.List(desired.Collections)
	if err != nil {
		c.Log.Warn("Listing archives failed", "error", err.Error())
	}
	for _, name := range names {
		if isArchive := strings.HasSuffix(name, ".zip") || strings.HasSuffix(name, ".zip"+hostapi.TemporarySuffix); !isArchive {
			continue
		}
		if err := c.Host.Disk.Remove(desired.Collections + `\` + name); err != nil {
			c.Log.Warn("Removing an archive failed", "file", name, "error", err.Error())
		}
	}
}

// ReportTo reads the Node's request, and reports its status on the Node.
func (c *Collector) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	reported := node.Annotations[api.AnnotationCollected]
	want := c.decide(node.Annotations[api.AnnotationCollect], reported)
	if want == reported {
		return nil
	}
	if err := w.Annotate(ctx, node, api.AnnotationCollected, want); err != nil {
		return fmt.Errorf("reporting a collection: %w", err)
	}
	return nil
}

// decide stores the Node's request, and returns the annotation that the Node should have. reported is its current one, also from an earlier process:
// a failed or expired collection is not repeated.
func (c *Collector) decide(id, reported string) (annotation string) {
	if id != "" && supportbundle.CheckID(id) != nil {
		id = "" // the operator refuses such an ID
	}
	previous, err := supportbundle.ParseStatus(reported)
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != c.requestedID {
		c.requestedID = id
		c.changed.Send()
		if err == nil && previous.ID == id && c.status.ID != id {
			c.status = adopted(previous, time.Now())
		}
	}
	switch {
	case id == "":
		c.status = supportbundle.Status{}
		return ""
	case c.status.ID != id:
		return reported // until it begins
	}
	return c.status.Annotation()
}

// adopted returns the status of an earlier process's collection; empty if it has to be repeated, because its archive was removed.
func adopted(previous supportbundle.Status, now time.Time) supportbundle.Status {
	switch {
	case previous.State == supportbundle.Failed || previous.State == supportbundle.Expired:
		return previous
	case previous.State == supportbundle.Done && now.Sub(previous.Time) > supportbundle.Keep:
		previous.State, previous.Bytes, previous.SHA256 = supportbundle.Expired, 0, ""
		return previous
	}
	return supportbundle.Status{}
}
