//go:build linux

package testenv

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/deploy/monitoring"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/manifest"
)

// The ServiceAccount of Prometheus, for which deploy/monitoring has permissions.
const prometheusNamespace, prometheusAccount = "monitoring", "prometheus-k8s"

// ServeMetrics creates the operator's namespace and the serving certificate of its metrics, as OpenShift or cert-manager does. It is for
// Options.Before.
func ServeMetrics(ctx context.Context, env *Env) error {
	pair, err := env.Lab.ServingCertificate(monitoring.MetricsService + "." + api.DefaultNamespace + ".svc")
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.DefaultNamespace}}
	if err := env.Client.Create(ctx, namespace); err != nil {
		return err
	}
	return env.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: monitoring.MetricsCertificate}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key, corev1.ServiceAccountRootCAKey: env.Lab.RegistryCA()},
	})
}

// PrometheusOptions are the options of a Prometheus in an Env.
type PrometheusOptions struct {
	// Interval between scrapes and evaluations.
	Interval time.Duration
	// Rules are files with rules by their names.
	Rules map[string][]byte
	// KubeState starts kube-state-metrics, and has it scraped as well.
	KubeState bool
}

// StartPrometheus starts a Prometheus with the scrape configuration and the permissions of deploy/monitoring. It authenticates to nodes with a
// certificate of the cluster, as docs/monitoring.md describes.
func (env *Env) StartPrometheus(ctx context.Context, o PrometheusOptions) (*lab.Prometheus, error) {
	token, err := env.prometheusToken(ctx)
	if err != nil {
		return nil, fmt.Errorf("creating the account of Prometheus: %w", err)
	}
	client, err := env.Lab.ControlPlane.Issue(pkix.Name{CommonName: "windows-metrics"})
	if err != nil {
		return nil, fmt.Errorf("creating a client certificate for Prometheus: %w", err)
	}
	targets, err := env.newTargets(token)
	if err != nil {
		return nil, err
	}
	files := lab.PrometheusFiles{
		"token": []byte(token), "ca.crt": env.Lab.ControlPlane.CA(), "operator-ca.crt": env.Lab.RegistryCA(), "tls.crt": client.Cert, "tls.key": client.Key,
	}
	var rules []string
	for name, content := range o.Rules {
		files[name] = content
		rules = append(rules, filepath.Join(lab.PrometheusFolder, name))
	}
	text, err := prometheusConfig(o.Interval, rules)
	if err == nil && o.KubeState {
		text, err = env.withKubeState(ctx, text)
	}
	if err != nil {
		return nil, err
	}
	prometheus, err := env.Lab.StartPrometheus(ctx, text, files)
	if err == nil {
		go targets.follow(env.running, prometheus)
	}
	return prometheus, err
}

// prometheusConfig adapts the configuration of deploy/monitoring to the lab's Prometheus: its folder and interval, and files of targets instead of
// discovery in Kubernetes.
func prometheusConfig(interval time.Duration, rules []string) ([]byte, error) {
	const folder = lab.PrometheusFolder + "/"
	config, err := monitoring.PrometheusConfig()
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer(
		"/etc/prometheus/windows/", folder, "/var/run/secrets/kubernetes.io/serviceaccount/", folder, "_interval: 30s", "_interval: "+interval.String(),
	).Replace(string(config))
	var all map[string]any
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	all["rule_files"] = rules
	jobs, _ := all["scrape_configs"].([]any)
	for _, j := range jobs {
		job, _ := j.(map[string]any)
		role := roleNode
		if job["job_name"] == monitoring.JobOperator {
			role = roleEndpointSlice
		}
		delete(job, "kubernetes_sd_configs")
		job["file_sd_configs"] = []any{map[string]any{"files": []any{folder + role + ".json"}}}
	}
	return yaml.Marshal(all)
}

// withKubeState starts kube-state-metrics, and adds the job that scrapes it to a configuration.
func (env *Env) withKubeState(ctx context.Context, config []byte) ([]byte, error) {
	root, err := Repository(ctx)
	if err != nil {
		return nil, err
	}
	job, err := env.startKubeState(ctx, env.monitoringPrograms(root))
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := yaml.Unmarshal(config, &all); err != nil {
		return nil, err
	}
	jobs, _ := all["scrape_configs"].([]any)
	all["scrape_configs"] = append(jobs, job)
	return yaml.Marshal(all)
}

// prometheusToken creates the ServiceAccount with its permissions, and returns a token of it.
func (env *Env) prometheusToken(ctx context.Context) (string, error) {
	root, err := Repository(ctx)
	if err != nil {
		return "", err
	}
	if err := env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: prometheusNamespace}}); err != nil {
		return "", err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: prometheusNamespace, Name: prometheusAccount}}
	if err := env.Client.Create(ctx, account); err != nil {
		return "", err
	}
	if err := manifest.Apply(ctx, env.Lab.ControlPlane.RESTConfig(), filepath.Join(root, "deploy", "monitoring", "rbac")); err != nil {
		return "", err
	}
	return env.Lab.ControlPlane.Token(ctx, prometheusNamespace, prometheusAccount)
}

// KubeletCertificate returns a serving certificate like that of a node's kubelet, for servers on the node's address.
func (env *Env) KubeletCertificate(node, address string) (tls.Certificate, error) {
	subject := pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
	pair, err := env.Lab.ControlPlane.Issue(subject, net.ParseIP(address))
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pair.Cert, pair.Key)
}
