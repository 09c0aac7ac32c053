package explain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// place is a cluster with a Windows Server 2022 node and the controller, whose registry lookups are a function.
type place struct {
	t *testing.T
	client.Client
	controller *Controller
	events     *controllertest.Recorder
	registry   *prometheus.Registry
}

func open(t *testing.T, r read, objects ...client.Object) place {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	node.Status.NodeInfo.KernelVersion = "10.0.20348.2402"
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(append(objects, node)...).WithStatusSubresource(&corev1.Pod{}).Build()
	c = onlyByUID(c)
	p := place{t: t, Client: c, events: &controllertest.Recorder{}, registry: prometheus.NewRegistry()}
	limited := func(context.Context) (bool, error) { return true, nil }
	p.controller = New(Options{Client: c, Live: notPending(c), Events: kube.NewEvents(p.events), Limited: limited, Registry: p.registry})
	p.controller.images = newImages(r)
	return p
}

// onlyByUID rejects a patch that lacks the pod's UID; the API server rejects a different UID.
func onlyByUID(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
		text, err := patch.Data(o)
		if err != nil {
			return err
		}
		got := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), got); err == nil && !strings.Contains(string(text), fmt.Sprintf("%q:%q", "uid", got.UID)) {
			return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), o.GetName(), nil)
		}
		return c.Patch(ctx, o, patch, options...)
	}})
}

// notPending serves lists of pods that are not Pending: the fake client does not support the selector.
func notPending(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		requested := (&client.ListOptions{}).ApplyOptions(options)
		if requested.FieldSelector.String() != "status.phase!=Pending" || requested.Limit == 0 {
			return fmt.Errorf("listing with selector %s and limit %d", requested.FieldSelector, requested.Limit)
		}
		var pods corev1.PodList
		if err := c.List(ctx, &pods); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase != corev1.PodPending {
				list := list.(*metav1.PartialObjectMetadataList)
				list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
			}
		}
		return nil
	}})
}

// refused returns a pod whose image has no manifest for its node.
func refused(name, image string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{NodeName: "win-1"}}
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Image: image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "ErrImagePull", Message: "no match for platform in manifest: not found",
	}}}}
	return pod
}

// reconcile reconciles a pod until no registry lookup is pending, and returns its annotation.
func (p place) reconcile(ctx context.Context, pod *corev1.Pod) string {
	p.t.Helper()
	r := request{client.ObjectKeyFromObject(pod), pod.UID, false}
	for {
		result, err := p.controller.Reconcile(ctx, r)
		if err != nil {
			p.t.Fatal(err)
		}
		if result.RequeueAfter != registryPollInterval {
			break
		}
		time.Sleep(registryPollInterval)
	}
	return p.annotation(ctx, pod)
}

func (p place) annotation(ctx context.Context, pod *corev1.Pod) string {
	p.t.Helper()
	got := &corev1.Pod{}
	if err := p.Get(ctx, client.ObjectKeyFromObject(pod), got); err != nil {
		p.t.Fatal(err)
	}
	return got.Annotations[api.AnnotationDoesNotStart]
}

// expectCount checks the metric.
func (p place) expectCount(reason string, want float64) {
	p.t.Helper()
	families, err := p.registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != len(api.PodReasons()) {
		p.t.Fatalf("the metrics are %v, %v", families, err)
	}
	for _, m := range families[0].Metric {
		if m.Label[0].GetValue() == reason && m.Gauge.GetValue() != want {
			p.t.Errorf("%v pods are counted for %s", m.Gauge.GetValue(), reason)
		}
	}
}

func for2019(context.Context, string) (windowsbuild.Image, error) {
	time.Sleep(100 * time.Millisecond)
	return windowsbuild.Image{Builds: []windowsbuild.Build{windowsbuild.Server2019}}, nil
}

func TestPodFailureIsExplainedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := refused("web", "r.test/web:1")
		p := open(t, for2019, pod)
		began := time.Now()
		for range 3 {
			got := p.reconcile(t.Context(), pod)
			if !strings.HasPrefix(got, "ImageForAnotherBuild: image r.test/web:1 has no manifest for node win-1") || !strings.Contains(got, "the image is for 10.0.17763 (Windows Server 2019). Use an image") {
				t.Errorf("the annotation is %q", got)
			}
		}
		if len(p.events.Events) != 1 || !strings.HasPrefix(p.events.Events[0], "Warning ImageForAnotherBuild *v1.Pod web image r.test/web:1") {
			t.Errorf("the events are %q", p.events.Events)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		p.expectCount(api.EventImageForAnotherBuild, 1)

		got := &corev1.Pod{}
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(pod), got); err != nil {
			t.Fatal(err)
		}
		got.Status.ContainerStatuses = nil // the kubelet has the image
		if err := p.Status().Update(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		if text := p.reconcile(t.Context(), pod); text != "" || len(p.events.Events) != 1 {
			t.Errorf("the annotation is still %q, the events are %q", text, p.events.Events)
		}
	})
}

// TestPodsAreUnchangedWithoutLimits: pods are annotated only once the policy that allows nothing else is in force.
func TestPodsAreUnchangedWithoutLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := refused("web", "r.test/web:1")
		p := open(t, for2019, pod)
		limited := p.controller.Limited
		p.controller.Limited = func(context.Context) (bool, error) { return false, nil }
		if got := p.reconcile(t.Context(), pod); got != "" || len(p.events.Events) > 0 {
			t.Errorf("the annotation is %q, the events are %q", got, p.events.Events)
		}
		p.controller.Limited = limited
		if got := p.reconcile(t.Context(), pod); got == "" {
			t.Error("the pod is not explained once the limits are in force")
		}
	})
}

func TestPodIsExplainedWithoutRegistry(t *testing.T) {
	for name, r := range map[string]read{
		"registry refuses": func(context.Context, string) (windowsbuild.Image, error) {
			return windowsbuild.Image{}, errors.New("refused")
		},
		"registry does not respond": func(context.Context, string) (windowsbuild.Image, error) {
			time.Sleep(time.Hour)
			return windowsbuild.Image{}, errors.New("late")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := refused("web", "r.test/web:1")
				p := open(t, r, pod)
				began := time.Now()
				got := p.reconcile(t.Context(), pod)
				if !strings.HasPrefix(got, "ImageForAnotherBuild: ") || strings.Contains(got, "the image is for") || time.Since(began) > 10*time.Second {
					t.Errorf("after %v, the annotation is %q", time.Since(began), got)
				}
				time.Sleep(time.Hour) // the lookup ends
			})
		})
	}
}

// TestStartedPodLosesAnnotation: two pods start, one of them unobserved, and a pending pod has the name of an earlier one.
func TestStartedPodLosesAnnotation(t *testing.T) {
	mark := func(name string) *corev1.Pod {
		pod := refused(name, "r.test/web:1")
		pod.Status.Phase, pod.Annotations = corev1.PodRunning, map[string]string{api.AnnotationDoesNotStart: "ImageForAnotherBuild: x", "theirs": "stays"}
		return pod
	}
	seen, missed, waits := mark("seen"), mark("missed"), mark("waits")
	waits.Status.Phase = corev1.PodPending
	p := open(t, for2019, seen, missed, waits)
	for name, uid := range map[string]types.UID{"seen": seen.UID, "gone": "uid-gone", "waits": "uid-of-one-before"} {
		if _, err := p.controller.Reconcile(t.Context(), request{types.NamespacedName{Namespace: "shop", Name: name}, uid, true}); err != nil {
			t.Fatal(err)
		}
	}
	if p.annotation(t.Context(), seen) != "" || p.annotation(t.Context(), missed) == "" {
		t.Error("the annotation of a started pod remains")
	}
	if err := p.controller.sweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.annotation(t.Context(), missed) != "" || p.annotation(t.Context(), waits) == "" {
		t.Error("want the annotation removed from the pod that started before, and kept on the pending pod")
	}
	got := &corev1.Pod{}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(missed), got); err != nil || got.Annotations["theirs"] != "stays" {
		t.Errorf("the other annotations are %v, %v", got.Annotations, err)
	}
}

// TestFiveThousandFailingPods has pods that share 700 images.
func TestFiveThousandFailingPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requested := map[string]int{}
		var mu sync.Mutex
		r := func(ctx context.Context, image string) (windowsbuild.Image, error) {
			mu.Lock()
			requested[image]++
			mu.Unlock()
			return for2019(ctx, image)
		}
		var pods []*corev1.Pod
		var objects []client.Object
		for i := range 5000 {
			pods = append(pods, refused(fmt.Sprint("web-", i), fmt.Sprintf("r%d.test/web:%d", i%7, i%100)))
			objects = append(objects, pods[i])
		}
		p := open(t, r, objects...)
		for _, pod := range append(pods, pods[:500]...) {
			if got := p.reconcile(t.Context(), pod); !strings.HasPrefix(got, api.EventImageForAnotherBuild) {
				t.Fatalf("pod %s has annotation %q", pod.Name, got)
			}
		}
		if len(p.events.Events) != len(pods) {
			t.Errorf("got %d events", len(p.events.Events))
		}
		for image, times := range requested {
			if times != 1 {
				t.Errorf("%s was looked up %d times", image, times)
			}
		}
		if m := p.controller.images; len(m.pendingSince)+len(m.queue)+len(m.running)+m.count != 0 || len(requested) != 700 {
			t.Errorf("after %d images, %d are pending, %d queued, %d registries running, count %d", len(requested), len(m.pendingSince), len(m.queue), len(m.running), m.count)
		}
		p.expectCount(api.EventImageForAnotherBuild, 5000)
	})
}

// TestRegistryRequestsAreLimited: 5,000 pods fail with 500 images of two registries, one of which hangs.
func TestRegistryRequestsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *images
		requested, most, mostOfOne := map[string]int{}, 0, 0
		m = newImages(func(_ context.Context, image string) (windowsbuild.Image, error) {
			m.mu.Lock()
			requested[image]++
			most, mostOfOne = max(most, m.count), max(mostOfOne, m.running["a.test"], m.running["b.test"])
			m.mu.Unlock()
			if strings.HasPrefix(image, "b.test/") {
				time.Sleep(10 * time.Second)
				return windowsbuild.Image{}, context.DeadlineExceeded
			}
			time.Sleep(100 * time.Millisecond)
			return windowsbuild.Image{Any: true}, nil
		})
		reported := 0
		for range 20 {
			for i := range 5000 {
				if _, a := m.get(t.Context(), fmt.Sprintf("%c.test/image:%d", 'a'+i%2, i%500)); a != pending {
					reported++
				}
			}
			m.mu.Lock()
			queued, pendingLookups := len(m.queue), len(m.pendingSince)
			m.mu.Unlock()
			if queued > maxQueued || pendingLookups > maxQueued+maxLookups {
				t.Fatalf("%d queued, %d pending", queued, pendingLookups)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		m.mu.Lock()
		for image, times := range requested {
			if times > 1 {
				t.Errorf("%s was looked up %d times", image, times)
			}
		}
		if most > maxLookups || mostOfOne > maxLookupsPerRegistry || len(requested) < 100 || reported == 0 {
			t.Errorf("%d lookups at once, %d of one registry, %d images", most, mostOfOne, len(requested))
		}
		m.mu.Unlock()
		time.Sleep(time.Hour)
	})
}

// TestFiveThousandPodsTakeLittleMemory: the cache keeps a few kilobytes per pod, however large users make them.
func TestFiveThousandPodsTakeLittleMemory(t *testing.T) {
	const pods, most = 5000, 8 << 10
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	kept := make([]any, pods)
	for i := range kept {
		pod := refused(fmt.Sprint("web-", i), fmt.Sprint("r.test/web:", i))
		pod.Annotations = map[string]string{"theirs": strings.Repeat("x", 1<<16)}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "r.test/web", Env: []corev1.EnvVar{{Name: "LARGE", Value: strings.Repeat("x", 1<<16)}}}}
		pod.Status.ContainerStatuses[0].State.Waiting.Message += strings.Repeat("x", 1<<16)
		var err error
		if kept[i], err = Pending().Transform(pod); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / pods
	t.Logf("%d bytes for each pod", each)
	if each > most {
		t.Errorf("the cache keeps %d bytes of each pod, want at most %d", each, most)
	}
	runtime.KeepAlive(kept)
}

// TestCachedPodIsSmall: users make a pod large.
func TestCachedPodIsSmall(t *testing.T) {
	pod := refused("web", strings.Repeat("x", 1<<20))
	pod.Annotations, pod.ManagedFields = map[string]string{"theirs": strings.Repeat("x", 1<<18)}, []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	pod.Spec.Containers = make([]corev1.Container, 1000)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}}
	pod.Status.ContainerStatuses[0].State.Waiting.Message += strings.Repeat("x", 1<<20)
	kept, err := Pending().Transform(pod)
	if err != nil {
		t.Fatal(err)
	}
	got := kept.(*corev1.Pod)
	text := got.String()
	if len(text) > 40_000 || strings.Contains(text, "secret") || got.UID != pod.UID || !strings.HasPrefix(got.Status.ContainerStatuses[0].State.Waiting.Message, "no match") {
		t.Errorf("it keeps %d bytes: %.300s", len(text), text)
	}
	if kept, err := Pending().Transform("gone"); err != nil || kept != "gone" {
		t.Errorf("an object that is not a pod becomes %v, %v", kept, err)
	}
}
