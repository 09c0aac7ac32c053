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
	changed chan struct{}
	failed  func(error)
}

// wake makes follow look at all Nodes.
func (l *linuxNodes) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
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
	nodes := informers.NewSharedInformerFactory(l.clients, 0).Core().V1().Nodes().Informer()
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { l.wake() }, UpdateFunc: func(any, any) { l.wake() }})
	if err != nil {
		l.failed(err)
		return
	}
	var informer sync.WaitGroup
	defer informer.Wait()
	informer.Go(func() { nodes.RunWithContext(ctx) })
	retry := time.NewTicker(linuxRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-retry.C:
		}
		for _, o := range nodes.GetStore().List() {
			if err := l.write(ctx, o.(*corev1.Node), false); err != nil && ctx.Err() == nil {
				l.failed(err)
			}
		}
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
