package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

const (
	// webPods is the name of the Service of two pods, and the prefix of the pods' names.
	webPods = "wmco-acceptance-web"
	// webTries is the number of requests per path. webTimeout is how long the first answer may take: kube-proxy needs a moment for a new Service.
	webTries    = 10
	webTimeout  = time.Minute
	callSeconds = 5
	// healthPort is where kube-proxy answers health checks of load balancers. On a single machine, only packets from a pod pass the rule of
	// its firewall.
	healthPort = "10256"
)

// webPodNames returns the names of the two pods.
func webPodNames() []string { return []string{webPods + "-1", webPods + "-2"} }

// trafficPath is the source and destination of a request.
type trafficPath struct {
	what, address string
	// from is the pod that sends it; empty for this machine.
	from string
	// mayFail is set if Windows does not guarantee this path.
	mayFail bool
}

// tryTraffic is a step of the join: it starts two pods that serve HTTP, and sends requests to them over several paths.
func (j *joining) tryTraffic(ctx context.Context, s *session) (string, error) {
	switch {
	case j.options.Image == "" || j.options.ImagePort == 0:
		return "", untriedErrorf("it requires --image and --image-port: an image that serves HTTP and contains curl.exe")
	case !j.report.wasConfirmed("pod"):
		return "", untriedErrorf("it requires a running pod")
	}
	service, pods, err := j.startWebPods(ctx)
	if err != nil {
		return "", errors.Join(err, j.removeWebPods(ctx))
	}
	var all findings
	for _, w := range j.trafficPaths(service, pods) {
		result, err := j.send(ctx, w)
		switch {
		case err != nil && w.mayFail:
			all.seen = append(all.seen, fmt.Sprintf("%s: %v; Windows does not guarantee this", w.what, err))
		case err != nil:
			all.wrong = append(all.wrong, fmt.Sprintf("%s: %v", w.what, err))
		default:
			all.seen = append(all.seen, w.what+": "+result)
		}
		s.printf("  %s: %s", w.what, map[bool]string{true: "answers", false: "does not answer"}[err == nil])
	}
	if err := j.kubectl(ctx, "logs", pods[0].Name); err != nil {
		all.wrong = append(all.wrong, fmt.Sprintf("kubectl logs: %v", err))
	}
	if err := j.removeWebPods(ctx); err != nil {
		all.wrong = append(all.wrong, err.Error())
	}
	return all.result()
}

// startWebPods starts the pods and a Service of type NodePort, and waits until the pods are Ready.
func (j *joining) startWebPods(ctx context.Context) (service corev1.Service, pods []corev1.Pod, err error) {
	service = serviceOf(webPods, j.options.ImagePort)
	service.Spec.Type = corev1.ServiceTypeNodePort
	if err := j.api.create(ctx, ofServices, service, &service); err != nil {
		return service, nil, err
	}
	for _, name := range webPodNames() {
		pod := j.windowsPod(name)
		pod.Labels[podLabel] = webPods
		if err := j.api.create(ctx, ofPods, pod, nil); err != nil {
			return service, nil, err
		}
	}
	for _, name := range webPodNames() {
		pod, err := j.awaitPod(ctx, "pod "+name, name)
		if err != nil {
			return service, nil, err
		}
		pods = append(pods, pod)
	}
	return service, pods, nil
}

// trafficPaths returns the paths to test. A node does not reach its own node ports, according to
// https://learn.microsoft.com/virtualization/windowscontainers/kubernetes/common-problems.
func (j *joining) trafficPaths(service corev1.Service, pods []corev1.Pod) []trafficPath {
	first, second := pods[0], pods[1]
	port := strconv.Itoa(int(j.options.ImagePort))
	virtual := net.JoinHostPort(service.Spec.ClusterIP, "80")
	node := net.JoinHostPort(j.address, strconv.Itoa(int(service.Spec.Ports[0].NodePort)))
	health := net.JoinHostPort(j.address, healthPort)
	return []trafficPath{
		{what: "this machine to a pod", address: net.JoinHostPort(first.Status.PodIP, port)},
		{what: "this machine to the other pod", address: net.JoinHostPort(second.Status.PodIP, port)},
		{what: "this machine to the Service", address: virtual},
		{what: "this machine to its node port", address: node, mayFail: true},
		{what: "a pod to the other pod", from: first.Name, address: net.JoinHostPort(second.Status.PodIP, port)},
		{what: "a pod to the Service", from: first.Name, address: virtual},
		{what: "a pod to the node port of its node", from: first.Name, address: node, mayFail: true},
		{what: "a pod to kube-proxy's answer to health checks", from: first.Name, address: health, mayFail: true},
	}
}

// send waits until a path works, and then tests it several more times. Lost requests are reported but do not fail: a pod may not reach itself by its
// Service.
func (j *joining) send(ctx context.Context, w trafficPath) (string, error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, webTimeout)
	err := j.await(limited, "no answer", func(ctx context.Context) (string, error) {
		if err := j.call(ctx, w); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	cancel()
	if err != nil {
		return "", err
	}
	first := time.Since(began)
	succeeded := 0
	for range webTries {
		if j.call(ctx, w) == nil {
			succeeded++
		}
	}
	return fmt.Sprintf("first response after %.1f s, then %d of %d requests succeeded", first.Seconds(), succeeded, webTries), nil
}

// call sends one request.
func (j *joining) call(ctx context.Context, w trafficPath) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callSeconds*time.Second)
	defer cancel()
	url := "http://" + w.address + "/"
	if w.from != "" {
		return j.kubectl(ctx, "exec", w.from, "--", "curl.exe", "-s", "-S", "-m", strconv.Itoa(callSeconds), url)
	}
	transport := httpclient.Transport(nil)
	transport.Proxy, transport.DisableKeepAlives = nil, true
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := httpclient.New(transport, callSeconds*time.Second).Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// removeWebPods removes the pods and their Service. Absent ones are not errors.
func (j *joining) removeWebPods(ctx context.Context) error {
	err := j.api.remove(ctx, ofServices+"/"+webPods)
	for _, name := range webPodNames() {
		err = errors.Join(err, j.removeNamedPod(ctx, name))
	}
	return err
}
