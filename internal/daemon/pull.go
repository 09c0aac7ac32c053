package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// pullSteps are how a node becomes what the cluster wants now, in order: those of a join that concern what is the same
// for all nodes. A join that was cut goes on where these end, and the other way round.
func (a *applying) pullSteps() []applyStep {
	return []applyStep{
		{"making folders", a.makeFolders},
		{"authorizing keys", a.tryKeys},
		{"linking programs", a.linkPrograms},
		{"writing configuration", a.writeFiles},
		{"setting the environment", a.setEnvironment},
		{"trusting certificates", a.trustCertificates},
		{"opening the firewall", a.openFirewall},
		{"remembering the request", a.remember},
		{"starting services", a.startOthers},
		{"removing old versions", a.removeOldVersions},
		{"completing", a.complete},
	}
}

// errRenewed ends a life whose host was made something else.
var errRenewed = errors.New("the host is what the cluster wants now")

// pull follows what the cluster wants of the nodes of this version, until ctx is done or the host was made so.
// Without the API server, or without the ConfigMap, the node stays as it is.
func (l *life) pull(ctx context.Context, client *apiClient) {
	if !l.record.Complete && !l.record.Pulled {
		return // a join was cut: the operator repeats it
	}
	retry := backoff.New()
	for ctx.Err() == nil {
		began := time.Now()
		err := l.pullOnce(ctx, client)
		if errors.Is(err, errRenewed) {
			l.renewOnce.Do(func() { close(l.renewed) }) // the term of another certificate may find the same
			return
		}
		if time.Since(began) > quietAfterStart {
			retry = backoff.New()
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("The cluster's wishes cannot be followed", "error", err.Error())
			_ = backoff.Sleep(ctx, retry.Next())
		}
	}
}

// pullOnce watches the ConfigMap, which begins with what there is, and acts on what it says. What cannot be done is tried
// again after a while, and at once when the ConfigMap says something else.
func (l *life) pullOnce(ctx context.Context, client *apiClient) error {
	began := time.Now()
	w, err := client.watchServices(ctx, l.record.Namespace, l.record.Desired.Version)
	if err != nil {
		return err
	}
	defer w.Stop()
	retry := backoff.New()
	var last watch.Event
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case event, open := <-w.ResultChan():
			if !open && time.Since(began) < time.Second {
				return errors.New("the watch ended as soon as it began")
			}
			if !open {
				return nil
			}
			if event.Type == watch.Error {
				return fmt.Errorf("watching ConfigMap %s: %w", servicesConfigMap(l.record.Desired.Version), apierrors.FromObject(event.Object))
			}
			last, retry = event, backoff.New()
		}
		again = nil
		err := l.see(ctx, client, last)
		if errors.Is(err, errRenewed) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			l.log.Error("The node is not what the cluster wants", "error", err.Error())
			again = time.After(retry.Next())
		}
	}
}

// see makes the host what an event of the ConfigMap says, if it is the operator's. A ConfigMap that is deleted says nothing: it comes
// again. So does one that is somebody else's.
func (l *life) see(ctx context.Context, client *apiClient, event watch.Event) error {
	cm, ok := event.Object.(*corev1.ConfigMap)
	if !ok || event.Type != watch.Added && event.Type != watch.Modified {
		return nil
	}
	serial, err := l.verify(cm.Name, cm.Data)
	if err != nil {
		l.distrust(cm.Name, err)
		return nil
	}
	node, err := desired.FromData(cm.Data)
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", cm.Name, err)
	}
	if node.Version != l.record.Desired.Version || node.Digest != l.record.Desired.Digest {
		return fmt.Errorf("ConfigMap %s is about version %q, want %q", cm.Name, node.Version, l.record.Desired.Version)
	}
	is, errIs := l.record.Desired.Hash()
	want, errWant := node.Hash()
	if err := errors.Join(errIs, errWant); err != nil {
		return err
	}
	if is == want && l.record.Complete {
		l.newest.Store(max(serial, l.newest.Load()))
		return nil
	}
	if l.isOutdated(serial) {
		l.distrust(cm.Name, errOlder)
		return nil
	}
	l.log.Info("The cluster wants something else", "settings", want)
	if err := l.become(ctx, client, node, serial); err != nil {
		return err
	}
	return errRenewed
}

// become makes the host what is wanted now.
func (l *life) become(ctx context.Context, client *apiClient, node desired.Node, serial int64) error {
	request := l.record.JoinRequest
	request.Desired, request.Serial = node, serial
	var err error
	if request.Secrets, err = l.secretsOf(ctx, client, node); err != nil {
		return err
	}
	a, err := newApplying(l.host, request)
	if err != nil {
		return err
	}
	a.pulls = true
	release, err := state.Begin(ctx, l.host)
	if err != nil {
		return err
	}
	defer release()
	if !l.record.IsCurrent(l.host.Disk) {
		return nil // a join was faster; the next life looks again
	}
	l.becoming.Store(true)
	defer l.becoming.Store(false)
	return a.run(ctx, a.pullSteps())
}

// secretsOf are the secrets that belong to a Node; they are asked for only when they are not those we have.
func (l *life) secretsOf(ctx context.Context, client *apiClient, node desired.Node) (desired.Secrets, error) {
	switch node.SecretsVersion {
	case "":
		return desired.Secrets{}, nil
	case l.record.Secrets.Version:
		return l.record.Secrets, nil
	}
	return client.secrets(ctx, l.record.Namespace, node.SecretsVersion)
}

func servicesConfigMap(version string) string { return api.ServicesConfigMapPrefix + version }
