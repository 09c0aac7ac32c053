//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	// startRounds is how many pods start on the node, and firstPods how many of them are the first of their namespaces.
	startRounds, firstPods = 50, 10
	// policySettle is longer than the operator pauses after it has written little. After much, a pod's last change is published by then.
	policySettle = 15 * time.Second
	idleWatch    = 2 * time.Minute
)

// publication counts what the operator writes for nodes.
type publication struct {
	mu             sync.Mutex
	objects, bytes int
	stop           func()
}

// recordPublication counts all changes of the operator's objects except hosts until stop is called, whatever kinds it publishes.
func (p *policyCluster) recordPublication(ctx context.Context) (*publication, error) {
	group := schema.GroupVersion{Group: api.GroupName, Version: "v1alpha1"}
	resources, err := p.Clients.Discovery().ServerResourcesForGroupVersion(group.String())
	if err != nil {
		return nil, err
	}
	r := &publication{}
	var watches []watch.Interface
	var work sync.WaitGroup
	r.stop = func() {
		for _, w := range watches {
			w.Stop()
		}
		work.Wait()
	}
	for _, kind := range resources.APIResources {
		if !kind.Namespaced || kind.Name == "windowsinstances" || strings.Contains(kind.Name, "/") {
			continue
		}
		w, err := p.watchKind(ctx, group.WithKind(kind.Kind+"List"))
		if err != nil {
			r.stop()
			return nil, err
		}
		watches = append(watches, w)
		work.Go(func() {
			for e := range w.ResultChan() {
				r.add(e)
			}
		})
	}
	if len(watches) == 0 {
		return nil, fmt.Errorf("group %s has no kind for published policies", group)
	}
	return r, nil
}

// watchKind watches the changes of a kind from now on.
func (p *policyCluster) watchKind(ctx context.Context, kind schema.GroupVersionKind) (watch.Interface, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	inNamespace := client.InNamespace(api.DefaultNamespace)
	if err := p.Client.List(ctx, list, inNamespace, client.Limit(1)); err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	return p.Client.Watch(ctx, list, inNamespace, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
}

// add counts one change. The size of an object is that of its JSON without the fields that the API server adds for each writer.
func (r *publication) add(e watch.Event) {
	o, isObject := e.Object.(*unstructured.Unstructured)
	if !isObject || e.Type == watch.Bookmark {
		return
	}
	o.SetManagedFields(nil)
	text, err := o.MarshalJSON()
	if err != nil || e.Type == watch.Deleted {
		text = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects++
	r.bytes += len(text)
}

// take returns the counts, and begins again.
func (r *publication) take() (objects, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	objects, bytes, r.objects, r.bytes = r.objects, r.bytes, 0, 0
	return objects, bytes
}

// measureOnePod counts what the operator writes when a pod comes, and when it goes. suffix says of how many namespaces it is a peer.
func (p *policyCluster) measureOnePod(ctx context.Context, suffix string) error {
	published, err := p.recordPublication(ctx)
	if err != nil {
		return err
	}
	defer published.stop()
	if err := p.quiet(ctx, published); err != nil {
		return err
	}
	published.take()
	var objects, bytes, processor []float64
	for range rounds {
		pod := p.newPod()
		for _, change := range []func(context.Context, benchPod) error{p.comes, p.goes} {
			before, err := p.Operator.CPUTime()
			if err != nil {
				return err
			}
			if err := change(ctx, pod); err != nil {
				return err
			}
			if err := p.quiet(ctx, published); err != nil {
				return err
			}
			after, err := p.Operator.CPUTime()
			if err != nil {
				return err
			}
			count, size := published.take()
			p.logf("A pod that came or went changed %d objects of %d bytes", count, size)
			objects, bytes, processor = append(objects, float64(count)), append(bytes, float64(size)), append(processor, after-before)
		}
	}
	p.number("policy.changes_for_one_pod"+suffix, slices.Max(objects), "count")
	p.number("policy.kb_for_one_pod"+suffix, slices.Max(bytes)/1e3, "kB")
	p.number("policy.operator_cpu_seconds_for_one_pod"+suffix, median(processor), "s")
	return nil
}

// comes creates a pod, and returns when the other pods of its namespace accept it; goes deletes it.
func (p *policyCluster) comes(ctx context.Context, pod benchPod) error {
	if err := p.createPod(ctx, pod); err != nil {
		return err
	}
	return p.node.await(ctx, "pods accept a new one", p.node.endpoints[pod.namespace], acceptsFrom(pod.address))
}

func (p *policyCluster) goes(ctx context.Context, pod benchPod) error {
	if err := p.deletePod(ctx, pod); err != nil {
		return err
	}
	return p.node.awaitNone(ctx, "no pod accepts one that is gone", p.node.endpoints[pod.namespace], acceptsFrom(pod.address))
}

// quiet waits until the operator has published nothing for a while.
func (p *policyCluster) quiet(ctx context.Context, published *publication) error {
	previous := -1
	return poll(ctx, policySettle, policyTimeout, "the operator publishes nothing more", func(context.Context) (bool, error) {
		published.mu.Lock()
		defer published.mu.Unlock()
		defer func() { previous = published.objects }()
		return published.objects == previous, nil
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// measureEffect measures the time from a change at the API server until all endpoints of the node that it concerns have their rules. Changes
// have random pauses between them, as those of users have.
func (p *policyCluster) measureEffect(ctx context.Context) error {
	changes := max(5, p.parts/2) // of each kind: of 100 values, the 99th percentile is the second largest
	p.logf("Changing %d policies and %d pods", changes, changes)
	kinds := []string{"policy", "pod"}
	took := map[string][]float64{}
	for round := range changes {
		for _, kind := range kinds {
			if err := sleep(ctx, rand.N(2*time.Second)); err != nil {
				return err
			}
			seconds, err := p.effectOf(ctx, kind, round)
			if err != nil {
				return err
			}
			took[kind] = append(took[kind], seconds)
		}
	}
	floor, err := p.objectFloor(ctx, 2*changes)
	if err != nil {
		return err
	}
	all := percentile(slices.Concat(took[kinds[0]], took[kinds[1]]), 99)
	p.number("policy.seconds_to_effect", all, "s")
	for _, kind := range kinds {
		p.number("policy.seconds_to_effect_of_"+kind+"_p50", median(took[kind]), "s")
		p.number("policy.seconds_to_effect_of_"+kind+"_p99", percentile(took[kind], 99), "s")
	}
	p.number("policy.floor_seconds_to_effect", floor, "s")
	p.number("policy.seconds_to_effect_over_floor", all/floor, "ratio")
	return nil
}

// effectOf changes a policy of one namespace, or adds a pod that is a peer of all pods of its namespace.
func (p *policyCluster) effectOf(ctx context.Context, kind string, round int) (seconds float64, err error) {
	var began time.Time
	if kind == "policy" {
		namespace, port := policyNamespace(round%p.parts), firstChangedPort+round
		began = time.Now()
		if err := p.changePort(ctx, namespace, int32(port)); err != nil {
			return 0, err
		}
		err = p.node.await(ctx, "the changed policy is in force", p.node.endpoints[namespace], acceptsOn(uint16(port)))
		return time.Since(began).Seconds(), err
	}
	pod := p.newPod()
	if err := p.announcePod(ctx, pod); err != nil {
		return 0, err
	}
	if err := sleep(ctx, rand.N(2*time.Second)); err != nil { // its network is created
		return 0, err
	}
	began = time.Now()
	if err := p.setAddress(ctx, pod); err != nil {
		return 0, err
	}
	err = p.node.await(ctx, "pods of the namespace accept the new one", p.node.endpoints[pod.namespace], acceptsFrom(pod.address))
	return time.Since(began).Seconds(), err
}

// objectFloor returns the 99th percentile of the time that a change of an object takes to reach a bare watch: the operator and WICD each
// depend on one.
func (p *policyCluster) objectFloor(ctx context.Context, rounds int) (float64, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "floor"}}
	maps := p.Clients.CoreV1().ConfigMaps(object.Namespace)
	object, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	w, err := maps.Watch(ctx, metav1.SingleObject(object.ObjectMeta))
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	var took []float64
	for round := range rounds {
		object.Data = map[string]string{"round": strconv.Itoa(round)}
		began := time.Now()
		if object, err = maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return 0, err
		}
		for seen := false; !seen; {
			e, open := <-w.ResultChan()
			got, isMap := e.Object.(*corev1.ConfigMap)
			if !open || !isMap {
				return 0, errors.New("the watch of a ConfigMap ended")
			}
			seen = got.ResourceVersion == object.ResourceVersion
		}
		took = append(took, time.Since(began).Seconds())
	}
	return percentile(took, 99), nil
}

// measurePodStart measures what the network plugin adds to the start of a pod: it asks WICD, which writes rules first. In namespaces that
// have no other pod on the node, WICD reads the policies first.
func (p *policyCluster) measurePodStart(ctx context.Context) error {
	const floorPipe = policypipe.Name + "-floor"
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	for pipe, add := range map[string]func(context.Context, policypipe.Request) error{
		policypipe.Name: p.node.part.Add, floorPipe: func(context.Context, policypipe.Request) error { return nil },
	} {
		l, err := p.node.windows.Host().Pipes.Listen(pipe)
		if err != nil {
			return err
		}
		serving.Go(func() { _ = policypipe.Serve(ctx, l, add) })
	}
	if err := p.addFirstNamespaces(ctx); err != nil {
		return err
	}
	var known, first, floor []float64
	for i := range startRounds {
		for _, kind := range []struct {
			pipe, namespace string
			took            *[]float64
			rounds          int
		}{
			{policypipe.Name, policyNamespace(i % p.parts), &known, startRounds}, {floorPipe, policyNamespace(i % p.parts), &floor, startRounds},
			{policypipe.Name, firstNamespace(i), &first, firstPods},
		} {
			if i >= kind.rounds {
				continue
			}
			took, err := p.startPod(ctx, kind.pipe, kind.namespace, i)
			if err != nil {
				return err
			}
			*kind.took = append(*kind.took, took)
		}
	}
	p.number("policy.pod_start_ms_added", median(known), "ms")
	p.number("policy.pod_start_ms_added_p99", percentile(known, 99), "ms")
	p.number("policy.pod_start_ms_added_first_in_namespace", median(first), "ms")
	p.number("policy.pod_start_floor_ms", median(floor), "ms")
	return nil
}

func firstNamespace(i int) string { return fmt.Sprintf("first-%02d", i) }

// addFirstNamespaces creates namespaces with policies and without pods on the node, and waits until the operator has published them.
func (p *policyCluster) addFirstNamespaces(ctx context.Context) error {
	published, err := p.recordPublication(ctx)
	if err != nil {
		return err
	}
	defer published.stop()
	err = each(ctx, firstPods, func(ctx context.Context, i int) error {
		if err := p.addNamespace(ctx, firstNamespace(i)); err != nil {
			return err
		}
		return p.Client.Create(ctx, policyOf(firstNamespace(i), dnsPolicy))
	})
	if err != nil {
		return err
	}
	return p.quiet(ctx, published)
}

// startPod starts a pod on the node, ends it, and returns the milliseconds that asking took.
func (p *policyCluster) startPod(ctx context.Context, pipe, namespace string, number int) (ms float64, err error) {
	name := fmt.Sprintf("start-%s-%02d", namespace, number)
	pod := sim.Pod{Namespace: namespace, Name: name, UID: "uid-" + name, Sandbox: name, Address: p.pod(podsOfNode - 1).address.Next()}
	endpoint := p.node.windows.AttachPod(p.node.network, pod)
	took, err := p.node.ask(ctx, pipe, pod)
	if err == nil && pipe == policypipe.Name && len(p.node.windows.HNS().RulesOf(endpoint)) == 0 {
		err = fmt.Errorf("WICD let pod %s/%s start without rules", namespace, name)
	}
	return float64(took.Microseconds()) / 1e3, errors.Join(err, p.node.windows.RunPod(pod), p.node.windows.EndPod(endpoint, pod))
}

// measureIdleBytes measures what the API server sends to the node while nothing changes.
func (p *policyCluster) measureIdleBytes(ctx context.Context) error {
	published, err := p.recordPublication(ctx)
	if err != nil {
		return err
	}
	defer published.stop()
	if err := p.quiet(ctx, published); err != nil {
		return err
	}
	published.take()
	p.logf("Observing the idle watches for %s", idleWatch)
	p.node.received.Store(0)
	if err := sleep(ctx, idleWatch); err != nil {
		return err
	}
	if objects, _ := published.take(); objects > 0 {
		return fmt.Errorf("the operator wrote %d objects while nothing changed", objects)
	}
	p.number("policy.api_bytes_per_node_idle", float64(p.node.received.Load())/idleWatch.Minutes(), "bytes/min")
	return nil
}

// measureHeap measures the memory of WICD's part: the heap in use after a collection, with it and without it. The rules in the simulated
// Host Network Service and the client stay. The part is started again.
func (p *policyCluster) measureHeap(ctx context.Context) error {
	with := heapInUse()
	runtime.KeepAlive(p.node.part)
	p.node.stop()
	p.node.part, p.node.stop = nil, func() {}
	p.number("policy.wicd_heap_mb_more", (with-heapInUse())/1e6, "MB")
	p.node.start()
	return sleep(ctx, policySettle)
}

// heapInUse returns the bytes of reachable objects.
func heapInUse() float64 {
	runtime.GC()
	runtime.GC() // what the first one has only finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// measureCompile compiles 10,000 pods and 1,000 policies alone, whatever the size of the cluster is.
func (p *policyCluster) measureCompile(ctx context.Context) error {
	dir, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "test", "-vet=off", "-run", "^$", "-bench", "^BenchmarkCompile$", "-count", strconv.Itoa(rounds), "./internal/operator/networkpolicy")
	c.Dir, c.Env = dir, os.Environ()
	out, err := c.CombinedOutput()
	var seconds []float64
	for _, m := range regexp.MustCompile(`(?m)^BenchmarkCompile\S*\s+\d+\s+(\d+) ns/op`).FindAllSubmatch(out, -1) {
		ns, _ := strconv.ParseFloat(string(m[1]), 64)
		seconds = append(seconds, ns/1e9)
	}
	if err != nil || len(seconds) != rounds {
		return fmt.Errorf("compiling: %w: %s", err, bytes.TrimSpace(out))
	}
	p.number("policy.compile_seconds", median(seconds), "s")
	return nil
}
