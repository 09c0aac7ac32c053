//go:build linux

package deploytest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers"
)

// testCacheMemory creates many large ConfigMaps, pods and certificate requests, and measures the memory of the operator's cache.
func (c *cluster) testCacheMemory(t *testing.T) {
	const maxHeld, maxPeak = 16 << 20, 192 << 20 // of 200 MB
	maps, pods := c.admin.CoreV1().ConfigMaps(namespace), c.admin.CoreV1().Pods("default")
	for i := range 150 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("large-", i)}, Data: map[string]string{"a": strings.Repeat("x", 1_000_000)}}
		must(t, errOf(maps.Create(t.Context(), cm, metav1.CreateOptions{})))
		t.Cleanup(func() { _ = maps.Delete(context.WithoutCancel(t.Context()), cm.Name, metav1.DeleteOptions{}) })
	}
	for i := range 50 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("large-", i)}}
		pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
		pod.Spec.NodeSelector = map[string]string{"nobody": "has-this"}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example/c:1"}}
		pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = "default", new(false)
		for j := range 2400 {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: strings.Repeat("k", 240) + "/" + strings.Repeat("k", 50) + fmt.Sprintf("%04d", j), Operator: corev1.TolerationOpEqual, Value: strings.Repeat("v", 63), Effect: corev1.TaintEffectNoExecute,
			})
		}
		must(t, errOf(pods.Create(t.Context(), pod, metav1.CreateOptions{})))
		t.Cleanup(func() {
			_ = pods.Delete(context.WithoutCancel(t.Context()), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		})
	}
	held, peak := c.fillCache(t)
	t.Logf("the operator's cache uses %d MiB, and %d MiB at the peak", held>>20, peak>>20)
	if held > maxHeld || peak > maxPeak {
		t.Errorf("the operator's cache uses %d MiB, and %d MiB at the peak; want at most %d and %d", held>>20, peak>>20, maxHeld>>20, maxPeak>>20)
	}
}

// fillCache fills a cache with the operator's options, and returns the heap that it uses in the end and at the peak.
func (c *cluster) fillCache(t *testing.T) (held, peak uint64) {
	t.Helper()
	scheme := utilruntime.NewScheme()
	for _, add := range []func(*utilruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		must(t, add(scheme))
	}
	o := controllers.Informers(namespace).Cache()
	o.Scheme = scheme
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// A low memory limit makes the garbage collector run often, so that the peak contains little garbage.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(before.Sys-before.HeapReleased) + 32<<20))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	k, err := cache.New(c.operatorConfig(), o)
	must(t, err)
	for _, kind := range []client.Object{&corev1.ConfigMap{}, &corev1.Pod{}, &certificatesv1.CertificateSigningRequest{}, &corev1.Node{}} {
		must(t, errOf(k.GetInformer(ctx, kind, cache.BlockUntilSynced(false))))
	}
	synced := make(chan bool, 1)
	go func() { _ = k.Start(ctx) }()
	go func() { synced <- k.WaitForCacheSync(ctx) }()
	for done := false; !done; {
		select {
		case ok := <-synced:
			if done = true; !ok {
				t.Fatal("the cache did not sync")
			}
		case <-time.After(5 * time.Millisecond):
		}
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapInuse-min(now.HeapInuse, before.HeapInuse))
	}
	runtime.GC()
	runtime.ReadMemStats(&now)
	return now.HeapInuse - min(now.HeapInuse, before.HeapInuse), peak
}
