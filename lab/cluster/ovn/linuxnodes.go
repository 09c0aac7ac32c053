//go:build linux

package ovn

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// linuxRetry is how often writes on Nodes are retried that the webhook has rejected.
const linuxRetry = time.Second

// linuxNodes writes the annotations of all Linux nodes as the programs on these nodes do, with the user of each node.
type linuxNodes struct {
	config  *rest.Config
	clients kubernetes.Interface
	hybrid  atomic.Bool // whether the hybrid overlay is on
	changed signal
	failed  func(error)
}

// A signal triggers work. It must have capacity 1.
type signal chan struct{}

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// followNodes calls handle with all Nodes after each change and each signal, and at an interval, then with retry, until handle
// fails or ctx is done.
func followNodes(
	ctx context.Context, clients kubernetes.Interface, changed signal, interval time.Duration,
	handle func(nodes []*corev1.Node, retry bool) error,
) error {
	nodes := informers.NewSharedInformerFactory(clients, 0).Core().V1().Nodes().Informer()
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed.send() }, UpdateFunc: func(any, any) { changed.send() }, DeleteFunc: func(any) { changed.send() },
	})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	var informer sync.WaitGroup
	defer informer.Wait()
	defer end()
	informer.Go(func() { nodes.RunWithContext(ctx) })
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		retry := false
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ticker.C:
			retry = true
		}
		if !nodes.HasSynced() {
			continue
		}
		var all []*corev1.Node
		for _, o := range nodes.GetStore().List() {
			all = append(all, o.(*corev1.Node))
		}
		if err := handle(all, retry); err != nil {
			return err
		}
	}
}

// removeGateways removes the gateway annotations of all Linux nodes, as their programs do when they start without the hybrid
// overlay. It must be called before the webhook is reconfigured, which then rejects this change.
func (l *linuxNodes) removeGateways(ctx context.Context) error {
	l.hybrid.Store(false)
	nodes, err := l.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		err = errors.Join(err, l.write(ctx, &nodes.Items[i], true))
	}
	return err
}

func (l *linuxNodes) run(ctx context.Context) {
	err := followNodes(ctx, l.clients, l.changed, linuxRetry, func(nodes []*corev1.Node, _ bool) error {
		for _, n := range nodes {
			if err := l.write(ctx, n, false); err != nil && ctx.Err() == nil {
				l.failed(err)
			}
		}
		return nil
	})
	if err != nil {
		l.failed(err)
	}
}

// write writes the annotations of a Linux node once it has an address and a subnet. It removes annotations only if remove is set.
func (l *linuxNodes) write(ctx context.Context, n *corev1.Node, remove bool) error {
	if n.Labels[corev1.LabelOSStable] != "linux" || n.Annotations[NodeSubnetsAnnotation] == "" || internalIP(n) == "" {
		return nil
	}
	changes, err := LinuxAnnotations(n, l.hybrid.Load())
	if err != nil {
		return err
	}
	maps.DeleteFunc(changes, func(_ string, value *string) bool { return value == nil && !remove })
	if changes = effective(n, changes); len(changes) == 0 {
		return nil
	}
	config := rest.CopyConfig(l.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: UserPrefix + n.Name, Groups: []string{Group, "system:authenticated"}}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return annotate(ctx, clients, n.Name, changes)
}

// effective returns the changes without those that a Node already has.
func effective(n *corev1.Node, changes Changes) Changes {
	for key, value := range changes {
		if old, before := n.Annotations[key]; value == nil && !before || value != nil && before && old == *value {
			delete(changes, key)
		}
	}
	return changes
}
