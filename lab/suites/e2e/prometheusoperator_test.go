//go:build linux

package e2e

import (
	"crypto/tls"
	_ "embed"
	"net"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/deploy/monitoring"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/prometheusoperator"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

//go:embed testdata/windows_exporter.txt
var exporterMetrics string

//go:embed testdata/kubelet_resource.txt
var kubeletMetrics string

// TestPrometheusOperator has real Prometheus operators generate configurations from the objects in deploy, for each kind of target discovery, and
// evaluates every expression with the scraped metrics. The operator and kube-state-metrics are real. The metrics of the node are recorded in testdata,
// so that they include those that Wine lacks.
func TestPrometheusOperator(t *testing.T) {
	needs(t, lab.CanRunLinuxNodes(), lab.CanRunPrometheus())
	p := newHarness(t, testenv.Options{Pod: true, SimulatedHosts: 1, Before: testenv.ServeMetrics})
	p.joinAll()
	p.serveNode(p.Hosts()[0])
	p.runPod(p.Hosts()[0].Name)
	operator, err := p.NewPrometheusOperator(t.Context())
	must(t, err)
	const plain, openShift = "monitoring", "monitoring/openshift"
	for _, m := range []testenv.Managed{
		{Version: prometheusoperator.Oldest, Role: "Endpoints", Objects: openShift}, // OpenShift 4.20
		{Version: prometheusoperator.Oldest, Role: "EndpointSlice", Objects: plain},
		{Version: prometheusoperator.Newest, Role: "Endpoints", Objects: plain},
		{Version: prometheusoperator.Newest, Role: "EndpointSlice", Objects: openShift},
	} {
		t.Run(string(m.Version)+" "+m.Role, func(t *testing.T) { p.withT(t).expectManaged(operator, m) })
	}
}

func (p harness) expectManaged(operator *testenv.PrometheusOperator, m testenv.Managed) {
	prometheus, err := operator.Start(p.t.Context(), m)
	must(p.t, err)
	defer prometheus.Stop()
	p.expectTargets(prometheus, monitoring.JobOperator, monitoring.JobExporter, monitoring.JobKubelet, testenv.KubeState)
	for _, query := range []string{
		`up{job="windows-exporter",instance="win-1",node="win-1"} == 1`,
		`up{job="kubelet",metrics_path="/metrics/cadvisor",node="win-1"} == 1`,
		`wmco_instances{job="windows-machine-config-operator",condition="Ready",status="True"} == 1`,
		`wicd_service_restarts_total{node="win-1",service="containerd"}`,
		`container_memory_working_set_bytes{node="win-1",namespace="default",pod="web",container="web",image="windows"}`,
		`container_memory_working_set_bytes{node="win-1",namespace="default",pod="web",container="",image=""}`,
	} {
		p.expectResult(prometheus, query)
	}
	for _, query := range consoleQueries("win-1", p.Hosts()[0].Address, metav1.NamespaceDefault, "web") {
		p.expectResult(prometheus, query)
	}
	p.expectResults(prometheus, withoutFault())
	p.expectHealthyRules(prometheus)
	for _, query := range []string{`{exported_namespace!=""}`, `{exported_service!=""}`, `{exported_pod!=""}`, `{exported_container!=""}`, `wmco_instances > 999`} {
		if result, err := prometheus.Evaluate(p.t.Context(), query); err != nil || len(result) > 0 {
			p.t.Errorf("result of %s: got %v (%v), want none", query, result, err)
		}
	}
}

// serveNode serves the metrics in testdata at the ports of a simulated host's exporter and kubelet, to clients that present a certificate.
func (p harness) serveNode(host testenv.Host) {
	p.t.Helper()
	certificate, err := p.KubeletCertificate(host.Name, host.Address)
	must(p.t, err)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	for port, answers := range map[string]struct{ path, text string }{"9182": {"/metrics", exporterMetrics}, "10250": {"/metrics/resource", kubeletMetrics}} {
		listener, err := tls.Listen("tcp", net.JoinHostPort(host.Address, port), config)
		must(p.t, err)
		mux := http.NewServeMux()
		mux.HandleFunc("GET "+answers.path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = w.Write([]byte(answers.text))
		})
		server := &http.Server{Handler: mux}
		go func() { _ = server.Serve(listener) }()
		p.t.Cleanup(func() { _ = server.Close() })
	}
}

// runPod creates the pod in the node's metrics. A simulated host has no kubelet that reports it as running.
func (p harness) runPod(node string) {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}, Spec: testenv.WebserverPod()}
	pod.Spec.NodeName = node
	pod.Spec.Containers[0].Resources = limits()
	p.create(pod)
	former := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", ContainerID: "containerd://web", Image: "web", ImageID: "web", Ready: true}}
	must(p.t, p.Client.Status().Patch(p.t.Context(), pod, client.MergeFrom(former)))
}

// withoutFault returns expressions without a result on a cluster without faults or pending work.
func withoutFault() map[string]string {
	const healthy = "the cluster has no faults and no pending work"
	return map[string]string{
		"wmco_instance_problem": healthy, "wmco_instance_action_failed": healthy, "wmco_rollout_waiting": healthy, "wmco_node_action_duration": healthy,
		"wmco_settings_lag_seconds": healthy, "ALERTS": healthy,
	}
}
