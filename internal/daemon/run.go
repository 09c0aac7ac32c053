package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/identity"
)

// RunOptions is what the service needs besides the host.
type RunOptions struct {
	// Log hears what the service does. Nothing secret is told to it.
	Log *slog.Logger
	// UpdateWithin is how long another version may take until it works, before the host goes back; 10 minutes when 0.
	// UpdateSteady is how long it must go on working; a minute when 0.
	UpdateWithin, UpdateSteady time.Duration
}

// How often the record is looked at without being told, and how long work goes well before a failure is the first again.
const (
	recordEvery     = time.Second // while a join is under way
	recordSeldom    = 10 * time.Second
	quietAfterStart = time.Minute
)

// Run is the service: it keeps the host as the last join asked, until ctx is done. It needs the API server only for
// what comes from there; without it, everything else goes on.
//
// A new record begins a new life: all work stops, and begins again with what is asked for now.
func Run(ctx context.Context, h host.Host, o RunOptions) {
	o.Log.Info("Service begins")
	defer o.Log.Info("Service ends")
	line := &line{}
	defer line.close()
	for ctx.Err() == nil {
		r, there := awaitRecord(ctx, h, o.Log)
		if !there {
			break
		}
		wanted, err := r.Wanted()
		if err != nil { // never written so
			o.Log.Error("What was asked for makes no sense; join the host again", "error", err.Error())
			_ = backoff.Sleep(ctx, recordSeldom)
			continue
		}
		l := &life{
			host: h, record: r, wanted: wanted, line: line, log: o.Log, options: o,
			poked: make(chan struct{}, 1), renewed: make(chan struct{}), askedAnew: make(chan struct{}, 1), restartAsked: make(chan struct{}, 1),
			frontends: newFrontends(), restarts: map[string]string{},
			began: time.Now(), told: map[trouble]bool{},
		}
		l.live(ctx)
	}
}

// errLeaving means that the last record is of a host that leaves.
var errLeaving = errors.New("the host leaves its cluster")

// awaitRecord waits until there is a record to live by, or ctx is done.
func awaitRecord(ctx context.Context, h host.Host, log *slog.Logger) (r state.Record, there bool) {
	for told := false; ; told = true {
		r, err := state.Read(h.Disk)
		if errors.Is(err, state.ErrUnreadable) {
			r, err = state.Restore(h)
		}
		if err == nil && !r.Leaving {
			return r, true
		}
		if err == nil {
			err = errLeaving
		}
		if !told {
			log.Warn("Waiting for a join", "error", err.Error())
		}
		if backoff.Sleep(ctx, recordSeldom) != nil {
			return state.Record{}, false
		}
	}
}

// life is the work with one record.
type life struct {
	host   host.Host
	record state.Record
	// wanted is what the record wants of this host, with nothing left open.
	wanted desired.Node
	// line is the connection to the API server, which lives on.
	line *line
	log  *slog.Logger
	// poked tells that services changed.
	poked chan struct{}
	// renewed is closed when the host was made something else than the record says.
	renewed   chan struct{}
	renewOnce sync.Once
	// becoming is true while this life itself makes the host something else, and writes so into the record.
	becoming atomic.Bool
	// newest is the highest serial that was seen of what the host has.
	newest atomic.Int64
	// askedAnew tells that the Node is to have another version than before.
	askedAnew chan struct{}
	// restartAsked tells that services are to be restarted.
	restartAsked chan struct{}
	// frontends is what the cluster says of Services, as far as a network of ours has to have load balancers for them.
	frontends *frontends
	options   RunOptions
	began     time.Time

	mu     sync.Mutex
	health health
	wait   awaited
	// network is how the network of pods is, repairs are those that the Node is to be told of, repairsDone is how many there were.
	network     networkState
	repairs     []trouble
	repairsDone int
	// distrusted is what was not followed when that was told last.
	distrusted trouble
	// restarts are services that are to be restarted, with the reason.
	restarts map[string]string
	// asked is the version that the Node is to have; empty as long as it says nothing.
	asked string
	// said is the Node as it was when we wrote to it last, told are the troubles of which there is an event. They are for who
	// follows the Node.
	said *corev1.Node
	told map[trouble]bool
	// firewallOff is true when it was said that the firewall does not work. It is for who keeps settings.
	firewallOff bool
}

// live works until the record changes or ctx is done.
func (l *life) live(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	l.log.Info("Working", "Node", l.record.Node, "version", l.record.Desired.Version, "complete", l.record.Complete)
	var work sync.WaitGroup
	work.Go(func() { l.keepServices(ctx) })
	work.Go(func() { l.keepSettings(ctx) })
	work.Go(func() { l.keepNetwork(ctx) })
	work.Go(func() { l.keepInCluster(ctx) })
	work.Go(func() { logrotate.Rotator{Disk: l.host.Disk, Services: l.wanted.Services, Limits: l.wanted.Logs, Log: l.log}.Run(ctx) })
	work.Go(func() { l.keepRoutes(ctx) })
	work.Go(func() { l.watchRestart(ctx) })
	l.awaitNewRecord(ctx)
	end()
	work.Wait()
}

// awaitNewRecord looks at the file until somebody else has written something else into it. The first look reads it: it may
// have changed since this life began.
func (l *life) awaitNewRecord(ctx context.Context) {
	every := recordEvery
	if l.record.Complete {
		every = recordSeldom
	}
	for was := fs.FileInfo(nil); ; {
		is, err := l.host.Disk.Stat(state.RecordFile)
		if err == nil && (was == nil || !is.ModTime().Equal(was.ModTime()) || is.Size() != was.Size()) {
			switch {
			case l.record.IsCurrent(l.host.Disk):
				was = is
			case !l.becoming.Load():
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-l.renewed:
			return
		case <-time.After(every):
		}
	}
}

// keepInCluster does what needs the API server: it gets a certificate, follows the node with it, and begins again with
// each new certificate.
func (l *life) keepInCluster(ctx context.Context) {
	var rejected *x509.Certificate
	for ctx.Err() == nil {
		id, err := l.identify(ctx, rejected)
		if err != nil {
			return
		}
		client, err := l.line.to(l.host, l.record.Bootstrap, id)
		if err != nil {
			l.log.Error("API server cannot be used", "error", err.Error())
			return // only a new join can mend it
		}
		term, end := context.WithCancelCause(ctx)
		var work sync.WaitGroup
		work.Go(func() {
			if errors.Is(l.follow(term, client), errRejected) {
				end(errRejected)
			}
		})
		work.Go(func() { l.pull(term, client) })
		work.Go(func() { l.keepVersion(term, client) })
		if l.wanted.Network != nil {
			work.Go(func() { l.frontends.follow(term, client) })
		}
		l.renew(term, client, id)
		end(nil)
		work.Wait()
		if errors.Is(context.Cause(term), errRejected) {
			l.log.Warn("Another certificate is needed", "error", errRejected.Error(), "expires", id.Leaf.NotAfter)
			rejected = id.Leaf
			_ = backoff.Sleep(ctx, identity.RefusedPause)
		}
	}
}

// line is the connection to the API server. A new life with the same identity goes on with it: when a thousand nodes follow a
// change, a thousand handshakes are most of the work.
type line struct {
	client *apiClient
	server agent.Bootstrap
	leaf   *x509.Certificate
}

// to returns the connection to this server with this identity.
func (n *line) to(h host.Host, server agent.Bootstrap, id identity.Identity) (*apiClient, error) {
	if n.client != nil && n.server == server && n.leaf.Equal(id.Leaf) {
		return n.client, nil
	}
	client, err := newAPI(h, server, apiCredentials{certificate: &id.Certificate})
	if err != nil {
		return nil, err
	}
	n.close()
	n.client, n.server, n.leaf = client, server, id.Leaf
	return client, nil
}

func (n *line) close() {
	if n.client != nil {
		n.client.close()
	}
}

// allRun tells whether every declared service runs.
func (l *life) allRun(ctx context.Context) (bool, error) {
	k := keeper{host: l.host, wanted: l.wanted.Services}
	found, err := k.list(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range k.wanted {
		if found[s.Name].State != host.Running {
			return false, nil
		}
	}
	return true, nil
}

// did tells of a change: in the log and in the journal.
func (l *life) did(format string, args ...any) {
	change := fmt.Sprintf(format, args...)
	l.log.Info("Changed", "change", change)
	state.Note(l.host.Disk, agent.JournalEntry{Time: time.Now().UTC(), Step: "service", Change: change})
}

func (l *life) poke() {
	select {
	case l.poked <- struct{}{}:
	default: // there is one already
	}
}
