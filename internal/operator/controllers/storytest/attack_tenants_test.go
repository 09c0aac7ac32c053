package storytest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podcause"
	"github.com/windows-machine-config/wmco/internal/testing/sim/lies"
)

const (
	// machinesNamespace contains this cluster's Machines; ownCluster is the name of its Cluster object.
	machinesNamespace, ownCluster = "self", "mgmt"
	linuxAddress                  = "10.99.0.1"
)

func (w *attackWorld) put(o client.Object) {
	w.created++
	w.story.put(o)
}

func (w *attackWorld) dropAll(kind string) {
	clear(w.cache.objects[kind])
	w.cache.changes++
}

// addOthers registers the Node of a machine that is unrelated to the operator.
func (w *attackWorld) addOthers(name, system, address string) {
	w.addNode(name, system, address)
	w.notifyNode(w.node(name), "others")
}

func machineKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}
}

// ownMachines lists only this cluster's Machines, as the operator's cache does.
type ownMachines struct{ client.Reader }

// List implements client.Reader.
func (r ownMachines) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return r.Reader.List(ctx, into, append(opts, client.InNamespace(machinesNamespace))...)
}

func clusterOf(namespace, name, host string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": int64(6443)}}}}
	o.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	o.SetKind("Cluster")
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func machineOf(namespace, name, cluster, address string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"clusterName": cluster},
		"status": map[string]any{"phase": "Running", "addresses": []any{
			map[string]any{"type": "InternalIP", "address": address}, map[string]any{"type": "Hostname", "address": name},
		}},
	}}
	o.SetGroupVersionKind(machineKind())
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{api.LabelMachineOS: "Windows"})
	return o
}

// actAsTenants acts as users with write access to their own namespaces, and as machines that others add to the cluster.
func (w *attackWorld) actAsTenants() {
	w.created++
	liar := lies.New(w.seed<<20|uint64(w.created), &corev1.Service{}, &corev1.Pod{})
	for _, h := range w.honest {
		liar.Words = append(liar.Words, h.address, h.name, h.place())
	}
	meta := metav1.ObjectMeta{Namespace: fmt.Sprint("tenant-", w.rand.IntN(3)), Name: fmt.Sprint("a-", w.rand.IntN(8))}
	switch {
	case w.chance(0.05):
		service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}, ClusterIPs: []string{"10.96.7.7"}}}
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}}
		var lie corev1.Service
		if liar.Object(service, &lie) {
			lie.ObjectMeta = meta
			w.put(&lie)
		}
	case w.chance(0.05):
		w.drop("Service", client.ObjectKey{Namespace: meta.Namespace, Name: meta.Name})
	case w.chance(0.1):
		w.makePod(meta, liar)
	case w.chance(0.03):
		machine := &unstructured.Unstructured{}
		if liar.Object(machineOf(meta.Namespace, meta.Name, ownCluster, "10.77.0.1").Object, &machine.Object) {
			machine.SetGroupVersionKind(machineKind())
			machine.SetNamespace(meta.Namespace)
			machine.SetName(meta.Name)
			w.put(machine)
			w.put(clusterOf(meta.Namespace, ownCluster, "10.3.0.5"))
		}
	case w.chance(0.01):
		name := fmt.Sprint("pool-", 1+w.rand.IntN(2))
		if !w.hasNode(name) {
			system := []string{"windows", "linux"}[w.rand.IntN(2)]
			w.record("another machine registers Node %s, %s", name, system)
			w.addOthers(name, system, fmt.Sprintf("10.98.%d.%d", w.rand.IntN(250), 1+w.rand.IntN(250)))
		}
	}
}

// makePod creates a pod that does not start and determines the cause.
func (w *attackWorld) makePod(meta metav1.ObjectMeta, liar *lies.Liar) {
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, NodeSelector: map[string]string{corev1.LabelOSStable: "windows", "missing": "label"},
		Containers: []corev1.Container{{Name: "c", Image: "registry.example/c:1"}},
	}}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	var lie corev1.Pod
	if !liar.Object(pod, &lie) {
		return
	}
	lie.ObjectMeta = meta
	w.put(&lie)
	kept := lie.DeepCopy()
	w.keep(kept)
	if cause := podcause.Of(kept, podcause.Cluster{Nodes: w.nodes()}); len(cause.Message) > 16<<10 {
		w.breach(attackSizes, "the cause of pod %s/%s has %d bytes", meta.Namespace, meta.Name, len(cause.Message))
	}
}

// answerName resolves DNS names: an honest host's name correctly until it has joined; after that, and for names of hostile hosts, as an attacker chooses.
func (w *attackWorld) answerName(ctx context.Context, _, name string) ([]netip.Addr, error) {
	name = strings.TrimSuffix(name, ".")
	w.mu.Lock()
	w.names[name]++
	questions := w.names[name]
	w.mu.Unlock()
	var own string
	words := []string{linuxAddress, "10.3.0.5", "10.96.0.1", "127.0.0.1", "169.254.169.254", "::1"}
	for _, h := range w.honest {
		if h.how == "name" && h.place() == name {
			if own = h.address; !h.isReady {
				return []netip.Addr{netip.MustParseAddr(own)}, nil
			}
			words = append(words, w.hostileHosts[0].address)
		}
		if h.isReady {
			words = append(words, h.address)
		}
	}
	for _, l := range w.hostileHosts {
		if l.place == name {
			own = l.address
		}
	}
	liar := lies.New(w.seed<<24 ^ questions<<8 ^ uint64(len(name))<<4 ^ uint64(name[len(name)/2]))
	return lieAboutName(ctx, liar, own, words)
}

func lieAboutName(ctx context.Context, liar *lies.Liar, own string, words []string) ([]netip.Addr, error) {
	switch liar.IntN(10) {
	case 0:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case 1:
		return nil, errors.New("server misbehaving: " + liar.Text("no such host"))
	case 2:
		return nil, nil
	case 3:
		time.Sleep(time.Duration(liar.IntN(6)) * time.Second)
	case 4:
		var many []netip.Addr
		for range 5000 {
			many = append(many, netip.MustParseAddr(words[liar.IntN(len(words))]))
		}
		return many, nil
	case 5, 6:
		return []netip.Addr{netip.MustParseAddr(words[liar.IntN(len(words))]), netip.MustParseAddr(words[liar.IntN(len(words))])}, nil
	}
	if own == "" {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.MustParseAddr(own)}, nil
}
