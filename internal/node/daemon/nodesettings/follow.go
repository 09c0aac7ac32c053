package nodesettings

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/configure"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// errRenewed ends a session whose host was changed.
var errRenewed = errors.New("the settings were applied")

// Follower watches the settings that the operator publishes for nodes of a version.
type Follower struct {
	state.Session
	verifier *Verifier
	// applying is true while the host is being changed, and the record with it.
	applying atomic.Bool
	// renewed is closed when the host was changed and the record is no longer valid.
	renewed   chan struct{}
	renewOnce sync.Once
}

// NewFollower returns a Follower of the settings that the verifier accepts.
func NewFollower(s state.Session, v *Verifier) *Follower {
	return &Follower{Session: s, verifier: v, renewed: make(chan struct{})}
}

// Renewed is closed when the host was changed and the record of the session is no longer valid.
func (f *Follower) Renewed() <-chan struct{} { return f.renewed }

// IsApplying reports whether the follower itself is about to write another record.
func (f *Follower) IsApplying() bool { return f.applying.Load() }

// Run applies the settings of this version's nodes, until ctx is done or the host was changed.
// Without the API server, or without the ConfigMap, the node stays as it is.
func (f *Follower) Run(ctx context.Context, client *apiclient.Client) {
	if !f.Record.Complete && !f.Record.Pulled {
		return // a join was interrupted: the operator repeats it
	}
	retry := backoff.New()
	for ctx.Err() == nil {
		began := time.Now()
		err := f.runOnce(ctx, client)
		if errors.Is(err, errRenewed) {
			f.renew()
			return
		}
		if time.Since(began) > backoff.ResetAfter {
			retry = backoff.New()
		}
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("Watching node settings failed", "error", err.Error())
			_ = backoff.Sleep(ctx, retry.Next())
		}
	}
}

// runOnce watches the ConfigMap, beginning with its current content, and acts on it. What fails is retried with back-off, and at once when the
// ConfigMap changes.
func (f *Follower) runOnce(ctx context.Context, client *apiclient.Client) error {
	began := time.Now()
	w := client.WatchSettings(ctx, f.Record.Namespace, f.Record.Desired.Version)
	defer w.Stop()
	retry := backoff.New()
	var last kubeapi.TypedEvent[corev1.ConfigMap]
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case event, open := <-w.Events:
			if open {
				last, retry = event, backoff.New()
				break
			}
			if err := w.Err(); err != nil {
				return fmt.Errorf("watching ConfigMap %s: %w", apiclient.ServicesConfigMap(f.Record.Desired.Version), err)
			}
			if time.Since(began) < time.Second {
				return errors.New("the watch ended immediately")
			}
			return nil
		}
		again = nil
		err := f.handle(ctx, client, last)
		if errors.Is(err, errRenewed) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			f.Log.Error("Applying node settings failed", "error", err.Error())
			again = time.After(retry.Next())
		}
	}
}

// handle applies the ConfigMap of an event, if the operator signed it. A deleted ConfigMap is ignored, because the operator re-creates it.
// One that the operator did not sign is refused.
func (f *Follower) handle(ctx context.Context, client *apiclient.Client, event kubeapi.TypedEvent[corev1.ConfigMap]) error {
	if event.Type != kubeapi.Added && event.Type != kubeapi.Modified {
		return nil
	}
	cm := event.Object
	serial, err := f.verifier.Verify(cm.Name, cm.Data)
	if err != nil {
		f.verifier.Refuse(cm.Name, err)
		return nil
	}
	node, err := desired.FromData(cm.Data)
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", cm.Name, err)
	}
	if current := f.Record.Desired; node.Version != current.Version || node.Digest != current.Digest {
		return fmt.Errorf("ConfigMap %s is for version %q with digest %.80q, want %q with %q", cm.Name, node.Version, node.Digest, current.Version, current.Digest)
	}
	current, errCurrent := f.Record.Desired.Hash()
	want, errWant := node.Hash()
	if err := errors.Join(errCurrent, errWant); err != nil {
		return err
	}
	if current == want && f.Record.Complete {
		f.verifier.remember(serial)
		return nil
	}
	if f.verifier.isOutdated(serial) {
		f.verifier.Refuse(cm.Name, errOlder)
		return nil
	}
	f.Log.Info("Applying node settings", "settings", want)
	if err := f.applySettings(ctx, client, node, serial); err != nil {
		return err
	}
	return errRenewed
}

// applySettings applies the new settings to the host.
func (f *Follower) applySettings(ctx context.Context, client *apiclient.Client, node desired.Node, serial int64) error {
	request := f.Record.JoinRequest
	request.Desired, request.Serial = node, serial
	request.Local = request.WithImageInUse(f.Record.Desired, node)
	var err error
	if request.Local.Kubelet, err = configure.HeldKubelet(ctx, f.Host, f.Record, node); err != nil {
		return err
	}
	if request.Secrets, err = SecretsOf(ctx, client, f.Record, node); err != nil {
		return err
	}
	return f.apply(ctx, request)
}

// Apply applies a request to the host, and ends the session.
func (f *Follower) Apply(ctx context.Context, request wicdapi.JoinRequest) error {
	if err := f.apply(ctx, request); err != nil {
		return err
	}
	f.renew()
	return nil
}

// renew ends the session. It may be called again by a run with another certificate.
func (f *Follower) renew() { f.renewOnce.Do(func() { close(f.renewed) }) }

func (f *Follower) apply(ctx context.Context, request wicdapi.JoinRequest) error {
	return f.WhileCurrent(ctx, func() error {
		f.applying.Store(true)
		defer f.applying.Store(false)
		return configure.Pull(ctx, f.Host, request)
	})
}

// SecretsOf returns the secrets for a Node's settings; they are read only if the version is not the current one.
func SecretsOf(ctx context.Context, client *apiclient.Client, current state.Record, node desired.Node) (desired.Secrets, error) {
	switch node.SecretsVersion {
	case "":
		return desired.Secrets{}, nil
	case current.Secrets.Version:
		return current.Secrets, nil
	}
	return client.Secrets(ctx, current.Namespace, node.SecretsVersion)
}
