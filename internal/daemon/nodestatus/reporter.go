package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/identity"
	"github.com/windows-machine-config/wmco/internal/mask"
	"github.com/windows-machine-config/wmco/internal/nodestate"
)

// Services tells how the services of the node are, some of which end when the Node changes.
type Services interface {
	AllRun(ctx context.Context) (bool, error)
	// Follow takes notice of the Node, and with nil, that there is none.
	Follow(node *corev1.Node)
}

// Updates takes the version that the Node is to have.
type Updates interface {
	Request(node *corev1.Node)
	// Confirm tells whether the version that the host has is reported and the Node Ready.
	Confirm(works bool) error
}

// Keys retires SSH keys that the operator does not need any more.
type Keys interface {
	Retire(node *corev1.Node) error
}

// PodNetwork is configured with what the Node says.
type PodNetwork interface {
	Configure(node *corev1.Node) error
	IsConfigured() bool
}

// Reporter follows the Node, acts on what it says, and tells it how the host is.
type Reporter struct {
	state.Session
	// Wake is received from when there is something to tell.
	Wake state.Signal
	// Sources are told to the node in this order.
	Sources    []Source
	Services   Services
	Updates    Updates
	Keys       Keys
	PodNetwork PodNetwork

	// running is held by Run: one connection after the other goes on with what was written.
	running sync.Mutex
	written written
	masker  *mask.Masker
}

// Run keeps up with the node: through failures, with pauses that grow. It ends when ctx is done, or with
// identity.ErrRejected.
func (r *Reporter) Run(ctx context.Context, client *apiclient.Client) error {
	r.running.Lock()
	defer r.running.Unlock()
	if r.written.events == nil {
		r.written.events = map[Problem]bool{}
		r.masker = mask.New()
	}
	retry := backoff.New()
	for ctx.Err() == nil {
		began := time.Now()
		err := r.followOnce(ctx, client)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsUnauthorized(err):
			return identity.ErrRejected
		}
		if time.Since(began) > backoff.ResetAfter {
			retry = backoff.New()
		}
		r.Log.Warn("Watching the Node failed", "error", err.Error())
		_ = backoff.Sleep(ctx, retry.Next())
	}
	return ctx.Err()
}

// followOnce reads the node and watches it from there on. It acts on what it sees, and whenever the services changed.
func (r *Reporter) followOnce(ctx context.Context, client *apiclient.Client) error {
	node, version, err := client.ListNode(ctx, r.Record.Node)
	if err != nil {
		return err
	}
	for {
		if err := r.reconcile(ctx, client, node); err != nil {
			return err
		}
		began := time.Now()
		w, err := client.WatchNode(ctx, r.Record.Node, version)
		if err != nil {
			return err
		}
		node, version, err = r.followWatch(ctx, client, w, node, version)
		w.Stop()
		if err != nil {
			return err
		}
		if time.Since(began) < time.Second {
			return errors.New("the watch ended as soon as it began")
		}
	}
}

// followWatch acts on each event of one watch, and returns the last node and version it saw.
func (r *Reporter) followWatch(ctx context.Context, client *apiclient.Client, w watch.Interface, node *corev1.Node, version string) (*corev1.Node, string, error) {
	for {
		select {
		case <-ctx.Done():
			return node, version, ctx.Err()
		case <-r.Wake:
		case event, open := <-w.ResultChan():
			if !open {
				return node, version, nil
			}
			seen, err := nodeOf(event)
			if err != nil {
				return node, version, err
			}
			version = seen.ResourceVersion
			switch {
			case event.Type == watch.Bookmark || seen.Name != r.Record.Node:
				continue
			case event.Type == watch.Deleted:
				seen = nil
			}
			node = seen
		}
		if err := r.reconcile(ctx, client, node); err != nil {
			return node, version, err
		}
	}
}

func nodeOf(event watch.Event) (*corev1.Node, error) {
	if event.Type == watch.Error {
		return nil, fmt.Errorf("watching the node: %w", apierrors.FromObject(event.Object))
	}
	node, ok := event.Object.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("watching the node: %T came", event.Object)
	}
	return node, nil
}

// reconcile does what the node's state allows: the pod network's configuration once its range is known, the end of the
// bootstrap token, and the report of the version, last of all.
func (r *Reporter) reconcile(ctx context.Context, client *apiclient.Client, node *corev1.Node) error {
	if err := r.removeBootstrap(); err != nil {
		r.Log.Warn("Removing the bootstrap kubeconfig failed", "error", err.Error())
	}
	r.Services.Follow(node)
	if node == nil {
		return nil
	}
	r.Updates.Request(node)
	if isOlder(node, r.written.node) { // what we said is still on its way to us
		node = r.written.node
	}
	if err := r.reportSources(ctx, client, node); err != nil {
		r.Log.Warn("Updating Node conditions failed", "error", err.Error()) // the next event of the node tries again
	}
	if err := r.Keys.Retire(node); err != nil {
		r.Log.Warn("Removing retired SSH keys failed", "error", err.Error())
	}
	if err := r.PodNetwork.Configure(node); err != nil {
		r.Log.Error("Configuring the pod network failed", "error", err.Error())
		return nil // the node's next change, or the next look at the services, tries again
	}
	return r.reportVersion(ctx, client, node)
}

// removeBootstrap removes the bootstrap token when the kubelet and WICD have certificates.
func (r *Reporter) removeBootstrap() error {
	disk, node := r.Host.Disk, r.Record.Node
	_, missing := credentials.ReadIdentity(disk, node, time.Now())
	if missing != nil || !credentials.KubeletHasCertificate(disk, node, time.Now()) || !disk.Exists(desired.BootstrapKubeconfig) {
		return nil
	}
	if err := disk.Remove(desired.BootstrapKubeconfig); err != nil {
		return err
	}
	r.RecordChange("%s removed", desired.BootstrapKubeconfig)
	return nil
}

// reportVersion annotates the node with version and settings when everything that makes them holds.
func (r *Reporter) reportVersion(ctx context.Context, client *apiclient.Client, node *corev1.Node) error {
	settings, err := r.Record.Desired.Hash()
	if err != nil {
		return err
	}
	report := map[string]string{api.AnnotationVersion: r.Record.Desired.Version, api.AnnotationSettings: settings}
	if !r.Record.Complete || !nodestate.IsReady(node) {
		return r.Updates.Confirm(false)
	}
	if reported(node, report) {
		return r.Updates.Confirm(true)
	}
	if !r.PodNetwork.IsConfigured() {
		return nil
	}
	running, err := r.Services.AllRun(ctx)
	if err != nil || !running {
		return err
	}
	said, err := client.AnnotateNode(ctx, node.Name, report)
	if err != nil {
		return err
	}
	r.written.node = said
	r.RecordChange("version %s with settings %s reported", r.Record.Desired.Version, settings)
	return r.Updates.Confirm(true)
}

// reportSources reports to the node how the host is. A source that fails keeps no other from it.
func (r *Reporter) reportSources(ctx context.Context, client *apiclient.Client, node *corev1.Node) (err error) {
	w := &Writer{Session: r.Session, client: client, memory: &r.written, masker: r.masker}
	for _, source := range r.Sources {
		err = errors.Join(err, source.ReportTo(ctx, w, node))
	}
	return err
}

func reported(node *corev1.Node, report map[string]string) bool {
	for key, value := range report {
		if node.Annotations[key] != value {
			return false
		}
	}
	return true
}
