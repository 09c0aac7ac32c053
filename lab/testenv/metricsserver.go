//go:build linux

package testenv

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// metricsServer is the name of metrics-server's Service and ServiceAccount in kube-system.
const metricsServer = "metrics-server"

// StartMetricsServer starts metrics-server with its own manifests, but as a program on this machine, and returns when the
// cluster serves its API. The first metrics appear half a minute later.
func (env *Env) StartMetricsServer(ctx context.Context) error {
	port, err := lab.FreePort(env.Lab.Address())
	if err != nil {
		return err
	}
	objects, err := env.metricsServerObjects(ctx, int64(port))
	if err != nil {
		return err
	}
	if err := manifest.ApplyObjects(ctx, env.Lab.ControlPlane.RESTConfig(), objects); err != nil {
		return fmt.Errorf("installing metrics-server: %w", err)
	}
	at := filepath.Join(env.folder.Path, metricsServer)
	kubeconfig, certificate, key, ca := at+".kubeconfig", at+".crt", at+".key", at+"-kubelets.crt"
	pair, err := env.Lab.ServingCertificate(metricsServer + "." + metav1.NamespaceSystem + ".svc")
	if err != nil {
		return err
	}
	err = errors.Join(
		env.Lab.ControlPlane.KubeconfigFor(ctx, metav1.NamespaceSystem, metricsServer, kubeconfig), os.WriteFile(certificate, pair.Cert, 0o600),
		os.WriteFile(key, pair.Key, 0o600), os.WriteFile(ca, env.Lab.ControlPlane.CA(), 0o600),
	)
	if err != nil {
		return fmt.Errorf("writing the files of metrics-server: %w", err)
	}
	running, err := env.Lab.ControlPlane.StartMetricsServer(ctx, at+".log",
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address="+env.Lab.Address(), "--secure-port="+strconv.Itoa(port), "--tls-cert-file="+certificate, "--tls-private-key-file="+key,
		"--kubelet-certificate-authority="+ca, "--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port",
		"--metric-resolution=15s") // as in its own Deployment; the autoscaler's period is the same
	if err != nil {
		return fmt.Errorf("starting metrics-server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(2*time.Minute))
	defer cancel()
	err = lab.Until(ctx, 200*time.Millisecond, "the API of metrics-server", func(context.Context) error {
		_, err := env.Clients.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
		return err
	}, running.Failure)
	if err != nil {
		return fmt.Errorf("%w; the log of metrics-server ends with:\n%s", err, running.Log(3000))
	}
	return nil
}

// metricsServerObjects returns metrics-server's own objects, except its Deployment, and an EndpointSlice with a port of this
// machine for its Service. The API server verifies its certificate.
func (env *Env) metricsServerObjects(ctx context.Context, port int64) ([]*unstructured.Unstructured, error) {
	root, err := Repository(ctx)
	if err != nil {
		return nil, err
	}
	const manifests = "manifests/base/"
	objects, err := manifest.ReadModule(ctx, filepath.Join(root, "lab", "cluster", "metricsserver"), lab.MetricsServerModule,
		manifests+"rbac.yaml", manifests+"service.yaml", manifests+"apiservice.yaml")
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.GetKind() != "APIService" {
			continue
		}
		unstructured.RemoveNestedField(o.Object, "spec", "insecureSkipTLSVerify")
		if err := unstructured.SetNestedField(o.Object, base64.StdEncoding.EncodeToString(env.Lab.RegistryCA()), "spec", "caBundle"); err != nil {
			return nil, err
		}
	}
	return append(objects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": string(discoveryv1.AddressTypeIPv4),
		"metadata": map[string]any{
			"namespace": metav1.NamespaceSystem, "name": metricsServer, "labels": map[string]any{discoveryv1.LabelServiceName: metricsServer},
		},
		"endpoints": []any{map[string]any{"addresses": []any{env.Lab.Address()}}},
		"ports":     []any{map[string]any{"name": "https", "port": port}}, // named as in the Service
	}}), nil
}

// ProcessorTime returns the processor time that a container has used, as the kubelet reports it.
func (env *Env) ProcessorTime(ctx context.Context, pod *corev1.Pod, container string) (time.Duration, error) {
	node := pod.Spec.NodeName
	text, err := env.Clients.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("metrics/resource").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of node %s: %w", node, err)
	}
	series := fmt.Sprintf("container_cpu_usage_seconds_total{container=%q,namespace=%q,pod=%q}", container, pod.Namespace, pod.Name)
	found := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(series) + ` (\S+)`).FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("node %s has no processor time of container %s of pod %s", node, container, pod.Name)
	}
	seconds, err := strconv.ParseFloat(string(found[1]), 64)
	return time.Duration(seconds * float64(time.Second)), err
}
