//go:build linux

package testenv

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/lab/manifest"
)

// metricsWindow is how long usage is measured for one answer.
const metricsWindow = 5 * time.Second

// ServePodMetrics adds the API metrics.k8s.io to the cluster, as metrics-server does, but for pods only. The numbers are the kubelets' own. It
// ends with the context.
func (env *Env) ServePodMetrics(ctx context.Context) error {
	pair, err := env.Lab.ServingCertificate("localhost")
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", net.JoinHostPort(env.Lab.Address(), "0"), &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/metrics.k8s.io/v1beta1", func(w http.ResponseWriter, _ *http.Request) {
		pods := metav1.APIResource{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: []string{"get", "list"}}
		answerJSON(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{pods},
		})
	})
	mux.HandleFunc("GET /apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		items, err := env.podMetrics(r.Context(), r.PathValue("namespace"), r.FormValue("labelSelector"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answerJSON(w, map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": map[string]any{}, "items": items})
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return env.aggregate(ctx, port)
}

// aggregate makes the API server forward requests for the API to a port of this machine. It connects to the endpoints of Services.
func (env *Env) aggregate(ctx context.Context, port string) error {
	number, err := strconv.ParseInt(port, 10, 64)
	if err != nil {
		return err
	}
	const name = "pod-metrics"
	labels := map[string]any{discoveryv1.LabelServiceName: name}
	service := map[string]any{"namespace": metav1.NamespaceSystem, "name": name, "port": number}
	return manifest.ApplyObjects(ctx, env.Lab.ControlPlane.RESTConfig(), []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": metav1.NamespaceSystem, "name": name},
			"spec": map[string]any{"ports": []any{map[string]any{"port": number}}},
		}},
		{Object: map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": string(discoveryv1.AddressTypeIPv4),
			"metadata":  map[string]any{"namespace": metav1.NamespaceSystem, "name": name, "labels": labels},
			"endpoints": []any{map[string]any{"addresses": []any{env.Lab.Address()}}}, "ports": []any{map[string]any{"port": number}},
		}},
		{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
			"spec": map[string]any{
				"group": "metrics.k8s.io", "version": "v1beta1", "service": service, "insecureSkipTLSVerify": true,
				"groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			},
		}},
	})
}

func answerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// sample is the processor time that a container had used at a time, and its memory.
type sample struct {
	seconds, bytes float64
	at             time.Time
}

// ProcessorTime returns the processor time that a container has used, as the kubelet reports it.
func (env *Env) ProcessorTime(ctx context.Context, pod *corev1.Pod, container string) (time.Duration, error) {
	all, err := env.samples(ctx, []corev1.Pod{*pod})
	if err != nil {
		return 0, err
	}
	s, found := all[pod.Namespace+"/"+pod.Name+"/"+container]
	if !found || s.at.IsZero() {
		return 0, fmt.Errorf("node %s has no processor time of container %s of pod %s", pod.Spec.NodeName, container, pod.Name)
	}
	return time.Duration(s.seconds * float64(time.Second)), nil
}

// podMetrics measures pods that are selected by labels.
func (env *Env) podMetrics(ctx context.Context, namespace, selector string) (items []any, err error) {
	pods, err := env.Clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	before, err := env.samples(ctx, pods.Items)
	if err != nil {
		return nil, err
	}
	time.Sleep(metricsWindow)
	after, err := env.samples(ctx, pods.Items)
	if err != nil {
		return nil, err
	}
	items = []any{}
	for _, pod := range pods.Items {
		var containers []any
		var at time.Time
		for _, c := range pod.Spec.Containers {
			key := pod.Namespace + "/" + pod.Name + "/" + c.Name
			first, last := before[key], after[key]
			if window := last.at.Sub(first.at).Seconds(); !first.at.IsZero() && window > 0 {
				cpu := fmt.Sprintf("%dm", int64(1000*(last.seconds-first.seconds)/window))
				containers = append(containers, map[string]any{"name": c.Name, "usage": map[string]any{"cpu": cpu, "memory": strconv.FormatFloat(last.bytes, 'f', 0, 64)}})
				at = last.at
			}
		}
		if len(containers) == len(pod.Spec.Containers) {
			items = append(items, map[string]any{
				"metadata": map[string]any{"namespace": pod.Namespace, "name": pod.Name, "labels": pod.Labels}, "timestamp": at.UTC().Format(time.RFC3339),
				"window": metricsWindow.String(), "containers": containers,
			})
		}
	}
	return items, nil
}

// samples returns the usage of containers that the kubelets of pods report, by namespace, pod and container.
func (env *Env) samples(ctx context.Context, pods []corev1.Pod) (map[string]sample, error) {
	line := regexp.MustCompile(`(?m)^container_(cpu_usage_seconds_total|memory_working_set_bytes)\{container="([^"]+)",namespace="([^"]+)",pod="([^"]+)"\} (\S+) (\d+)`)
	all, requested := map[string]sample{}, map[string]bool{"": true}
	for _, pod := range pods {
		if node := pod.Spec.NodeName; !requested[node] {
			requested[node] = true
			text, err := env.Clients.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("metrics/resource").DoRaw(ctx)
			if err != nil {
				return nil, fmt.Errorf("reading the metrics of node %s: %w", node, err)
			}
			for _, m := range line.FindAllStringSubmatch(string(text), -1) {
				key := strings.Join([]string{m[3], m[4], m[2]}, "/")
				value, errValue := strconv.ParseFloat(m[5], 64)
				at, errAt := strconv.ParseInt(m[6], 10, 64)
				if errValue != nil || errAt != nil {
					continue
				}
				s := all[key]
				if m[1] == "cpu_usage_seconds_total" {
					s.seconds, s.at = value, time.UnixMilli(at)
				} else {
					s.bytes = value
				}
				all[key] = s
			}
		}
	}
	return all, nil
}
