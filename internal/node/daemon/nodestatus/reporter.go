package nodestatus

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Services reports the state of the node's services, and ends some of them when the Node changes.
type Services interface {
	AllRun(ctx context.Context) (bool, error)
	// Follow receives the Node, or nil if there is none.
	Follow(node *corev1.Node)
}

// Updates handles the version that the Node requests.
type Updates interface {
	Request(node *corev1.Node)
	// Confirm receives whether the host's version is reported and the Node is Ready.
	Confirm(works bool) error
}

// Keys removes SSH keys that the operator no longer needs.
type Keys interface {
	Retire(node *corev1.Node) error
}

// PodNetwork is configured from the Node.
type PodNetwork interface {
	Configure(node *corev1.Node) error
	IsConfigured() bool
}

// Reporter watches the Node, acts on its content, and reports the host's state to it.
type Reporter struct {
	state.Session
	// Wake signals that there is something to report.
	Wake state.Signal
	// Sources report to the Node in this order.
	Sources    []Source
	Services   Services
	Updates    Updates
	Keys       Keys
	PodNetwork PodNetwork

	// running is held by Run: consecutive connections share what was written.
	running sync.Mutex
	written written
	masker  *mask.Masker
}

// Run follows the Node, and retries after failures with back-off. It ends when ctx is done, or with identity.ErrRejected.
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
		case kubeapi.HasCode(err, http.StatusUnauthorized):
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

// followOnce reads the Node and watches it from there. It reconciles after each event, and when woken.
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
		w := client.WatchNode(ctx, r.Record.Node, version)
		node, version, err = r.followWatch(ctx, client, w, node, version)
		w.Stop()
		if err != nil {
			return err
		}
		if time.Since(began) < time.Second {
			return errors.New("the watch ended immediately")
		}
	}
}

// followWatch reconciles after each event of one watch, and returns the last Node and version it received.
func (r *Reporter) followWatch(ctx context.Context, client *apiclient.Client, w *kubeapi.Watcher[corev1.Node], node *corev1.Node, version string) (*corev1.Node, string, error) {
	for {
		select {
		case <-ctx.Done():
			return node, version, ctx.Err()
		case <-r.Wake:
		case event, open := <-w.Events:
			if !open {
				return node, version, w.Err()
			}
			version = event.Object.ResourceVersion
			switch {
			case event.Type == kubeapi.Bookmark || event.Object.Name != r.Record.Node:
				continue
			case event.Type == kubeapi.Deleted:
				node = nil
			default:
				node = event.Object
			}
		}
		if err := r.reconcile(ctx, client, node); err != nil {
			return node, version, err
		}
	}
}

// reconcile does what the Node's state allows: it configures the pod network once its range is known, removes the bootstrap token, and reports
// the version last of all.
func (r *Reporter) reconcile(ctx context.Context, client *apiclient.Client, node *corev1.Node) error {
	if err := r.removeBootstrap(); err != nil {
		r.Log.Warn("Removing the bootstrap kubeconfig failed", "error", err.Error())
	}
	r.Services.Follow(node)
	if node == nil {
		return nil
	}
	r.Updates.Request(node)
	if isOlder(node, r.written.node) { // WICD's last write has not reached the watch yet
		node = r.written.node
	}
	if err := r.reportSources(ctx, client, node); err != nil {
		r.Log.Warn("Updating Node conditions failed", "error", err.Error()) // the next event of the Node retries
	}
	if err := r.Keys.Retire(node); err != nil {
		r.Log.Warn("Removing retired SSH keys failed", "error", err.Error())
	}
	if err := r.PodNetwork.Configure(node); err != nil {
		r.Log.Error("Configuring the pod network failed", "error", err.Error())
		return nil // the Node's next change, or the next check of the services, retries
	}
	return r.reportVersion(ctx, client, node)
}

// removeBootstrap removes the bootstrap token once the kubelet and WICD have certificates.
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

// reportVersion annotates the Node with version and settings once everything they require works.
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
	output, err := client.AnnotateNode(ctx, node.Name, report)
	if err != nil {
		return err
	}
	r.written.node = output
	r.RecordChange("version %s with settings %s reported", r.Record.Desired.Version, settings)
	return r.Updates.Confirm(true)
}

// reportSources reports the host's state to the Node. A failing source does not stop the others.
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
