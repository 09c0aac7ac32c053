package acceptance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

// testPod is the name of the pod.
const testPod = "wmco-acceptance"

const (
	ofPods     = "/api/v1/namespaces/default/pods"
	ofServices = "/api/v1/namespaces/default/services"
)

// image returns the image of the pod. Default: the sandbox image, which runs until it is stopped and is present on every node.
func (j *joining) image() string { return cmp.Or(j.options.Image, desired.DefaultSandboxImage) }

// registries returns the registries of the images in use.
func (j *joining) registries() []string {
	var registries []string
	for _, image := range []string{desired.DefaultSandboxImage, j.image()} {
		registry, _, _ := strings.Cut(image, "/")
		registries = append(registries, registry)
	}
	slices.Sort(registries)
	return slices.Compact(registries)
}

// runPod is a step of the join.
func (j *joining) runPod(ctx context.Context, _ *session) (string, error) {
	node, err := j.node(ctx)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	if err := j.canGetImages(ctx, node); err != nil {
		return "", err
	}
	began := time.Now()
	if err := errors.Join(j.api.create(ctx, ofPods, j.windowsPod(testPod), nil), j.api.create(ctx, ofServices, serviceOf(testPod, 80), nil)); err != nil {
		return "", err
	}
	pod, err := j.awaitPod(ctx, "the pod", testPod)
	ran := time.Since(began)
	if err != nil {
		return "", errors.Join(err, j.removePod(ctx)) // otherwise it stays for the steps that restart services below it
	}
	if ip, err := netip.ParseAddr(pod.Status.PodIP); err != nil || !inRange(podRange(node), ip) {
		return "", fmt.Errorf("its address %q is not in the node's range %s", pod.Status.PodIP, podRange(node))
	}
	return fmt.Sprintf("%s was Ready after %.0f s at %s; %s", j.image(), ran.Seconds(), pod.Status.PodIP, j.awaitBalancer(ctx)), nil
}

// awaitPod waits until a pod is Ready. subject names it in an error.
func (j *joining) awaitPod(ctx context.Context, subject, name string) (pod corev1.Pod, err error) {
	err = j.await(ctx, subject+" is not Ready", func(ctx context.Context) (string, error) {
		if err := j.api.get(ctx, ofPods+"/"+name, &pod); err != nil {
			return err.Error(), nil
		}
		return j.whyNotReady(ctx, pod), nil
	})
	return pod, err
}

// windowsPod returns a pod with the image.
func (j *joining) windowsPod(name string) corev1.Pod {
	mountToken, grace := false, int64(5)
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podLabel: name}}, Spec: corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
		Tolerations:                  []corev1.Toleration{{Key: api.TaintKey, Value: api.TaintValue, Effect: corev1.TaintEffectNoSchedule}},
		Containers:                   []corev1.Container{{Name: "tried", Image: j.image(), ImagePullPolicy: corev1.PullIfNotPresent}},
		AutomountServiceAccountToken: &mountToken, TerminationGracePeriodSeconds: &grace,
	}}
}

// podLabel is the label by which Services select pods.
const podLabel = "app"

// serviceOf returns a Service for the pods with that label.
func serviceOf(label string, port uint16) corev1.Service {
	return corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: label}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{podLabel: label}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(int32(port))}},
	}}
}

// balancerTimeout is how long kube-proxy may take for the load balancer of a Service.
const balancerTimeout = time.Minute

// awaitBalancer waits for the first load balancer and returns the result as text. There is none until a Service has pods.
func (j *joining) awaitBalancer(ctx context.Context) string {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, balancerTimeout)
	defer cancel()
	err := j.await(ctx, "kube-proxy created no load balancer for its Service", func(ctx context.Context) (string, error) {
		state, err := j.Host.Networks.List(ctx)
		if err == nil && len(state.LoadBalancers) > 0 {
			return "", nil
		}
		return fmt.Sprintf("%d load balancers, %v", len(state.LoadBalancers), err), nil
	})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("kube-proxy created the load balancer of its Service %.0f s later", time.Since(began).Seconds())
}

func inRange(cidr string, ip netip.Addr) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return err == nil && prefix.Contains(ip)
}

// canGetImages returns an error if images cannot be pulled for a reason outside the node.
func (j *joining) canGetImages(ctx context.Context, node corev1.Node) error {
	if j.options.Mirror != "" {
		return nil
	}
	client := httpclient.New(j.internet, 20*time.Second)
	for _, image := range []string{desired.DefaultSandboxImage, j.image()} {
		if slices.ContainsFunc(node.Status.Images, func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, image) }) {
			continue
		}
		registry, _, _ := strings.Cut(image, "/")
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+registry+"/v2/", nil)
		if err != nil {
			return untriedErrorf("%w", err)
		}
		response, err := client.Do(request)
		var redirect *httpclient.Redirect
		if errors.As(err, &redirect) { // the registry answers
			continue
		}
		if err != nil {
			return untriedErrorf("the node does not have image %s, and its registry cannot be reached: %w", image, err)
		}
		_ = response.Body.Close()
	}
	return nil
}

// whyNotReady returns why a pod is not Ready; empty if it is.
func (j *joining) whyNotReady(ctx context.Context, pod corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	reported := []string{"phase " + string(pod.Status.Phase)}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			reported = append(reported, w.Reason+": "+w.Message)
		}
		if t := c.State.Terminated; t != nil {
			reported = append(reported, fmt.Sprintf("ended with %d: %s", t.ExitCode, t.Message))
		}
	}
	return strings.Join(append(reported, j.warnings(ctx, metav1.NamespaceDefault, pod.Name)...), "; ")
}

// warnings returns the events of type Warning for an object.
func (j *joining) warnings(ctx context.Context, namespace, name string) (reported []string) {
	var events corev1.EventList
	err := j.api.get(ctx, "/api/v1/namespaces/"+namespace+"/events?fieldSelector=type=Warning,involvedObject.name="+name, &events)
	for _, e := range events.Items {
		reported = append(reported, e.Reason+": "+e.Message)
	}
	if err != nil {
		reported = append(reported, err.Error())
	}
	return reported
}

// removePod removes the pod with its Service. Absent ones are not errors.
func (j *joining) removePod(ctx context.Context) error {
	return errors.Join(j.api.remove(ctx, ofServices+"/"+testPod), j.removeNamedPod(ctx, testPod))
}

func (j *joining) removeNamedPod(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := j.api.remove(ctx, ofPods+"/"+name); err != nil {
		return err
	}
	return j.awaitDeletion(ctx, "pod "+name+" is not deleted", ofPods+"/"+name)
}
