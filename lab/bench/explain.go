//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/image"
)

const (
	// wrongImages have no index, and are for another build.
	wrongImages = 10
	// failingPods fail at once, twice: other ones take the place of the first.
	failingPods = 5000
	writers     = 8
	// foreignNode has no kubelet: failures of its pods are written by the lab.
	foreignNode = "win-foreign"
)

// explaining is a cluster with pods that fail, and a registry with a password that has their images.
type explaining struct{ pulls }

// configure starts the registry as a mirror, and a proxy: the operator's machine does not know the names of the lab.
func (e *explaining) configure(ctx context.Context) (err error) {
	if e.registry, err = e.Lab.StartRegistry(ctx, lab.RegistryOptions{}); err != nil {
		return err
	}
	proxy, err := e.Lab.StartForwardProxy(ctx, map[string]string{lab.MachineName: e.Lab.Address()})
	if err != nil {
		return err
	}
	if err := e.pulls.configure(ctx); err != nil {
		return err
	}
	return e.Change(ctx, func(c *v1alpha1.WindowsConfigSpec) { c.Proxy = v1alpha1.ProxySpec{HTTPSProxy: proxy.URL()} })
}

// measure has pods fail one after another, each with an image of its own, and then thousands at once with the same images.
func (e *explaining) measure(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: foreignNode, Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	if err := e.Client.Create(ctx, node); err != nil {
		return err
	}
	node.Status.NodeInfo.KernelVersion = fmt.Sprintf("10.0.%d.%d", lab.Build, lab.Revision)
	node.Status.Capacity = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100000")}
	if err := e.Client.Status().Update(ctx, node); err != nil {
		return err
	}
	var seconds []float64
	for n := range wrongImages {
		if err := e.pushWrong(ctx, n); err != nil {
			return err
		}
		took, err := e.failAll(ctx, fmt.Sprintf("one-%d", n), 1, n)
		if err != nil {
			return err
		}
		seconds = append(seconds, took)
	}
	e.number("explain.seconds", median(seconds), "s")
	requested, err := e.requests()
	if err != nil {
		return err
	}
	e.number("explain.registry_requests_per_image", requested/wrongImages, "requests")
	return e.measureMany(ctx)
}

// wrong is the name of an image.
func wrong(n int) string { return fmt.Sprintf("wrong/app-%d", n) }

func (e *explaining) pushWrong(ctx context.Context, n int) error {
	i, err := image.New("10.0.17763.1", map[string]string{"app.txt": wrong(n)})
	if err != nil {
		return err
	}
	return e.registry.Push(ctx, wrong(n), "1", i)
}

// requests is how many requests of the operator the registry got.
func (e *explaining) requests() (float64, error) {
	all, err := e.registry.Requests()
	if err != nil {
		return 0, err
	}
	requested := 0
	for _, r := range all {
		if r.Agent == api.ManagedBy {
			requested++
		}
	}
	if requested == 0 {
		return 0, errors.New("the operator did not ask the registry")
	}
	return float64(requested), nil
}

// measureMany measures how long the operator needs to explain the failures of thousands of pods, and how its memory grows.
func (e *explaining) measureMany(ctx context.Context) error {
	before, err := e.Operator.PeakMemory()
	if err != nil {
		return err
	}
	for wave, name := range []string{"first", "next"} {
		took, err := e.failAll(ctx, name, failingPods, 0)
		if err != nil {
			return err
		}
		peak, err := e.Operator.PeakMemory()
		if err != nil {
			return err
		}
		e.say("%d pods were told after %.1f s; the operator had at most %d MB", failingPods, took, peak/1e6)
		e.number([]string{"explain.rss_mb_added_5000", "explain.rss_mb_added_next_5000"}[wave], float64(peak-before)/1e6, "MB")
		before = peak
		zero := int64(0)
		if err := e.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": name}, &client.DeleteAllOfOptions{
			DeleteOptions: client.DeleteOptions{GracePeriodSeconds: &zero},
		}); err != nil {
			return err
		}
	}
	requested, err := e.requests()
	if err == nil {
		e.number("explain.registry_requests_per_image_10000_pods", requested/wrongImages, "requests")
	}
	return err
}

// failAll makes the pods of an app fail as the kubelet reports it for an image of another build, and returns the seconds until every pod has its
// explanation.
func (e *explaining) failAll(ctx context.Context, app string, count, first int) (seconds float64, err error) {
	began := time.Now()
	numbers, failures := make(chan int), make(chan error, writers)
	var working sync.WaitGroup
	for range writers {
		working.Go(func() {
			for n := range numbers {
				if err := e.fail(ctx, app, n, wrong((first+n)%wrongImages)); err != nil {
					failures <- err
					return
				}
			}
		})
	}
send:
	for n := range count {
		select {
		case numbers <- n:
		case err = <-failures:
			break send
		}
	}
	close(numbers)
	working.Wait()
	if err != nil {
		return 0, err
	}
	err = e.poll(ctx, pollInterval, 4*patience, fmt.Sprintf("%d pods of %s are told", count, app), func(ctx context.Context) (bool, error) {
		reported := &metav1.PartialObjectMetadataList{}
		reported.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := e.Client.List(ctx, reported, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": app}); err != nil {
			return false, err
		}
		done := 0
		for _, pod := range reported.Items {
			if pod.Annotations[api.AnnotationDoesNotStart] != "" {
				done++
			}
		}
		if done < count && count > 1 {
			time.Sleep(time.Second) // each list of thousands is work for the API server
		}
		return done == count, nil
	})
	return time.Since(began).Seconds(), err
}

// fail creates a pod that has failed.
func (e *explaining) fail(ctx context.Context, app string, n int, repository string) error {
	name := mirroredSource + "/" + repository + ":1"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-%d", app, n), Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: foreignNode, OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: "main", Image: name}}},
	}
	if err := e.Client.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "ErrImagePull", Message: "rpc error: code = NotFound desc = failed to pull and unpack image: no match for platform in manifest: not found",
	}}}}
	return e.Client.Status().Update(ctx, pod)
}
