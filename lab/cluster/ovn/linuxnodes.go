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

// linuxRetry is when a write on a Node that was refused is tried again.
const linuxRetry = time.Second

// linuxNodes does on all Linux Nodes what the programs of their nodes do, each as its own user.
type linuxNodes struct {
	config  *rest.Config
	clients kubernetes.Interface
	hybrid  atomic.Bool // whether hybrid overlay is on
	changed signal
	failed  func(error)
}

// A signal says that there is something to do. It has room for one.
type signal chan struct{}

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// followNodes calls look with all Nodes after each change, after each signal, and at an interval (again), until it fails or ctx is done.
func followNodes(ctx context.Context, clients kubernetes.Interface, changed signal, every time.Duration, look func(nodes []*corev1.Node, again bool) error) error {
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
	retry := time.NewTicker(every)
	defer retry.Stop()
	for {
		again := false
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry.C:
			again = true
		}
		if !nodes.HasSynced() {
			continue
		}
		var all []*corev1.Node
		for _, o := range nodes.GetStore().List() {
			all = append(all, o.(*corev1.Node))
		}
		if err := look(all, again); err != nil {
			return err
		}
	}
}

// leave removes the gateways of all Linux nodes, as their programs do when they start without hybrid overlay. They can do so only until the webhook
// is reconfigured: then it refuses.
func (l *linuxNodes) leave(ctx context.Context) error {
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

func (l *linuxNodes) follow(ctx context.Context) {
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

// write writes what the program of a Linux node writes, once the node has an address and a subnet, and removes something only if it may.
func (l *linuxNodes) write(ctx context.Context, n *corev1.Node, mayRemove bool) error {
	if n.Labels[corev1.LabelOSStable] != "linux" || n.Annotations[NodeSubnetsAnnotation] == "" || internalIP(n) == "" {
		return nil
	}
	changes, err := LinuxAnnotations(n, l.hybrid.Load())
	if err != nil {
		return err
	}
	maps.DeleteFunc(changes, func(_ string, value *string) bool { return value == nil && !mayRemove })
	if changes = onlyReal(n, changes); len(changes) == 0 {
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

// onlyReal are the changes that change something.
func onlyReal(n *corev1.Node, changes Changes) Changes {
	for key, value := range changes {
		if old, before := n.Annotations[key]; value == nil && !before || value != nil && before && old == *value {
			delete(changes, key)
		}
	}
	return changes
}
