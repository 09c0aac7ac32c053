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

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/httpclient"
)

// triedPod is the name of the pod.
const triedPod = "wmco-acceptance"

const ofPods = "/api/v1/namespaces/default/pods"

// image is that of the pod. That of sandboxes runs until it is stopped, and every node has it.
func (j *joining) image() string { return cmp.Or(j.options.Image, desired.DefaultSandboxImage) }

// registries are those of the images that are used.
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
		return "", untriedf("%w", err)
	}
	if err := j.canGetImages(ctx, node); err != nil {
		return "", err
	}
	mountToken, grace := false, int64(5)
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: triedPod}, Spec: corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
		Tolerations:                  []corev1.Toleration{{Key: api.TaintKey, Value: api.TaintValue, Effect: corev1.TaintEffectNoSchedule}},
		Containers:                   []corev1.Container{{Name: "tried", Image: j.image(), ImagePullPolicy: corev1.PullIfNotPresent}},
		AutomountServiceAccountToken: &mountToken, TerminationGracePeriodSeconds: &grace,
	}}
	began := time.Now()
	if err := j.api.create(ctx, ofPods, pod, nil); err != nil {
		return "", err
	}
	failure := j.await(ctx, "the pod does not run", func(ctx context.Context) (string, error) {
		if err := j.api.get(ctx, ofPods+"/"+triedPod, &pod); err != nil {
			return err.Error(), nil
		}
		return j.whyNotReady(ctx, pod), nil
	})
	ran := time.Since(began)
	var ended error
	if failure != nil || !j.restarts() {
		ended = j.removePod(ctx) // else it stays for the restart
	}
	if failure != nil {
		return "", failure
	}
	if ip, err := netip.ParseAddr(pod.Status.PodIP); err != nil || !inRange(podRange(node), ip) {
		return "", errors.Join(ended, fmt.Errorf("its address is %q, and the node's range %s", pod.Status.PodIP, podRange(node)))
	}
	return fmt.Sprintf("%s ran after %.0f s, at %s", j.image(), ran.Seconds(), pod.Status.PodIP), ended
}

func inRange(cidr string, ip netip.Addr) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return err == nil && prefix.Contains(ip)
}

// canGetImages tells why images cannot be had, where that is no fault of the node.
func (j *joining) canGetImages(ctx context.Context, node corev1.Node) error {
	if j.options.Mirror != "" {
		return nil
	}
	client := httpclient.New(httpclient.Transport(nil), 20*time.Second)
	for _, image := range []string{desired.DefaultSandboxImage, j.image()} {
		if slices.ContainsFunc(node.Status.Images, func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, image) }) {
			continue
		}
		registry, _, _ := strings.Cut(image, "/")
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+registry+"/v2/", nil)
		if err != nil {
			return untriedf("%w", err)
		}
		response, err := client.Do(request)
		var redirect *httpclient.Redirect
		if errors.As(err, &redirect) { // it answers
			continue
		}
		if err != nil {
			return untriedf("the node does not have image %s, and its registry cannot be reached: %w", image, err)
		}
		_ = response.Body.Close()
	}
	return nil
}

// whyNotReady is what keeps a pod from being Ready; empty when it is.
func (j *joining) whyNotReady(ctx context.Context, pod corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	said := []string{"phase " + string(pod.Status.Phase)}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			said = append(said, w.Reason+": "+w.Message)
		}
		if t := c.State.Terminated; t != nil {
			said = append(said, fmt.Sprintf("ended with %d: %s", t.ExitCode, t.Message))
		}
	}
	return strings.Join(append(said, j.warnings(ctx, metav1.NamespaceDefault, triedPod)...), "; ")
}

// warnings are what events of type Warning say of an object.
func (j *joining) warnings(ctx context.Context, namespace, name string) (said []string) {
	var events corev1.EventList
	err := j.api.get(ctx, "/api/v1/namespaces/"+namespace+"/events?fieldSelector=type=Warning,involvedObject.name="+name, &events)
	for _, e := range events.Items {
		said = append(said, e.Reason+": "+e.Message)
	}
	if err != nil {
		said = append(said, err.Error())
	}
	return said
}

func (j *joining) removePod(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := j.api.remove(ctx, ofPods+"/"+triedPod); err != nil {
		return err
	}
	return j.await(ctx, "the pod does not end", func(ctx context.Context) (string, error) {
		err := j.api.get(ctx, ofPods+"/"+triedPod, nil)
		switch {
		case errors.Is(err, errAbsent):
			return "", nil
		case err != nil:
			return err.Error(), nil
		}
		return "it is there", nil
	})
}
