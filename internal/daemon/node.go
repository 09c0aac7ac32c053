package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// follow keeps up with the node: through failures, with pauses that grow. It ends when ctx is done, or with errRejected.
func (l *life) follow(ctx context.Context, client *apiClient) error {
	retry := backoff.New()
	for ctx.Err() == nil {
		began := time.Now()
		err := l.followOnce(ctx, client)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsUnauthorized(err):
			return errRejected
		}
		if time.Since(began) > time.Minute {
			retry = backoff.New()
		}
		l.log.Warn("Node cannot be followed", "error", err.Error())
		_ = backoff.Sleep(ctx, retry.Next())
	}
	return ctx.Err()
}

// followOnce reads the node and watches it from there on. It acts on what it sees, and whenever the services changed.
func (l *life) followOnce(ctx context.Context, client *apiClient) error {
	node, version, err := client.listNode(ctx, l.record.Node)
	if err != nil {
		return err
	}
	for {
		if err := l.settle(ctx, client, node); err != nil {
			return err
		}
		began := time.Now()
		w, err := client.watchNode(ctx, l.record.Node, version)
		if err != nil {
			return err
		}
		node, version, err = l.followWatch(ctx, client, w, node, version)
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
func (l *life) followWatch(ctx context.Context, client *apiClient, w watch.Interface, node *corev1.Node, version string) (*corev1.Node, string, error) {
	for {
		select {
		case <-ctx.Done():
			return node, version, ctx.Err()
		case <-l.poked:
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
			case event.Type == watch.Bookmark || seen.Name != l.record.Node:
				continue
			case event.Type == watch.Deleted:
				seen = nil
			}
			node = seen
		}
		if err := l.settle(ctx, client, node); err != nil {
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

// settle does what the node's state allows: the pod network's configuration once its range is known, the end of the
// bootstrap token, and the report of the version, last of all.
func (l *life) settle(ctx context.Context, client *apiClient, node *corev1.Node) error {
	if err := l.dropBootstrap(); err != nil {
		l.log.Warn("Bootstrap kubeconfig stays", "error", err.Error())
	}
	if node == nil {
		return nil
	}
	l.ask(node)
	if isOlder(node, l.said) { // what we said is still on its way to us
		node = l.said
	}
	if err := l.tell(ctx, client, node); err != nil {
		l.log.Warn("How the node is cannot be told", "error", err.Error()) // the next event of the node tries again
	}
	if err := l.retireKeys(node); err != nil {
		l.log.Warn("SSH keys stay that are not needed any more", "error", err.Error())
	}
	if err := l.writeCNI(node); err != nil {
		l.log.Error("Pod network cannot be configured", "error", err.Error())
		return nil // the node's next change, or the next look at the services, tries again
	}
	return l.report(ctx, client, node)
}

// tell tells the node how the host is. What of it cannot be told keeps nothing else from it.
func (l *life) tell(ctx context.Context, client *apiClient, node *corev1.Node) (err error) {
	for _, part := range []func(context.Context, *apiClient, *corev1.Node) error{l.tellHealth, l.tellRefusal, l.tellRestart, l.tellNetwork, l.tellDistrust} {
		err = errors.Join(err, part(ctx, client, node))
	}
	return err
}

// writeCNI writes the configuration of the pod network.
func (l *life) writeCNI(node *corev1.Node) error {
	cni := l.record.Desired.CNI
	if cni == nil || node.Spec.PodCIDR == "" {
		return nil
	}
	content, err := cni.Fill(node.Spec.PodCIDR, l.record.NodeIP)
	if err != nil {
		return fmt.Errorf("rendering %s: %w", cni.Path, err)
	}
	changed, err := l.host.Disk.WriteFile(cni.Path, content)
	if err != nil {
		return fmt.Errorf("writing %s: %w", cni.Path, err)
	}
	if changed {
		l.did("%s written for pod range %s", cni.Path, node.Spec.PodCIDR)
	}
	return nil
}

// dropBootstrap removes the bootstrap token when the kubelet and WICD have certificates.
func (l *life) dropBootstrap() error {
	disk, node := l.host.Disk, l.record.Node
	_, missing := credentials.ReadIdentity(disk, node, time.Now())
	if missing != nil || !credentials.KubeletHasCertificate(disk, node, time.Now()) || !disk.Exists(desired.BootstrapKubeconfig) {
		return nil
	}
	if err := disk.Remove(desired.BootstrapKubeconfig); err != nil {
		return err
	}
	l.did("%s removed", desired.BootstrapKubeconfig)
	return nil
}

// report annotates the node with version and settings when everything that makes them holds.
func (l *life) report(ctx context.Context, client *apiClient, node *corev1.Node) error {
	settings, err := l.record.Desired.Hash()
	if err != nil {
		return err
	}
	report := map[string]string{api.AnnotationVersion: l.record.Desired.Version, api.AnnotationSettings: settings}
	if !l.record.Complete || !isReady(node) {
		return l.confirm(false)
	}
	if reported(node, report) {
		return l.confirm(true)
	}
	if !l.hasNetwork() {
		return nil
	}
	running, err := l.allRun(ctx)
	if err != nil || !running {
		return err
	}
	said, err := client.annotateNode(ctx, node.Name, report)
	if err != nil {
		return err
	}
	l.said = said
	l.did("version %s with settings %s reported", l.record.Desired.Version, settings)
	return l.confirm(true)
}

// hasNetwork tells whether the files are there that wait for the network of pods.
func (l *life) hasNetwork() bool {
	var paths []string
	if cni := l.record.Desired.CNI; cni != nil {
		paths = append(paths, cni.Path)
	}
	if l.wanted.Network != nil {
		for _, f := range l.wanted.Network.Files {
			paths = append(paths, f.Path)
		}
	}
	return !slices.ContainsFunc(paths, func(path string) bool { return !l.host.Disk.Exists(path) })
}

func reported(node *corev1.Node, report map[string]string) bool {
	for key, value := range report {
		if node.Annotations[key] != value {
			return false
		}
	}
	return true
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
