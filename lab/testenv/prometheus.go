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
	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/cluster/prometheusoperator"
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

// StartPrometheus starts a Prometheus with the scrape configuration and the permissions of deploy/monitoring.
func (env *Env) StartPrometheus(ctx context.Context, o PrometheusOptions) (*lab.Prometheus, error) {
	access, err := env.newPrometheusAccess(ctx)
	if err != nil {
		return nil, err
	}
	files := access.files()
	files["operator-ca.crt"] = env.Lab.RegistryCA()
	var rules []string
	for name, content := range o.Rules {
		files[name] = content
		rules = append(rules, filepath.Join(lab.PrometheusFolder, name))
	}
	discovered, err := monitoring.PrometheusConfig()
	if err != nil {
		return nil, err
	}
	config, err := inLab(discovered, "/etc/prometheus/windows/", folderInLab, "_interval: 30s", "_interval: "+o.Interval.String())
	if err != nil {
		return nil, err
	}
	config["rule_files"] = rules
	if o.KubeState {
		job, err := env.startKubeState(ctx, access.programs)
		if err != nil {
			return nil, err
		}
		jobs, _ := config["scrape_configs"].([]any)
		config["scrape_configs"] = append(jobs, job)
	}
	return access.start(ctx, config, discovered, files)
}

// prometheusAccess has the credentials with which a Prometheus reads metrics and finds its targets, and the programs that start it.
type prometheusAccess struct {
	env      *Env
	programs prometheusoperator.Programs
	// kubeconfig is the path of a kubeconfig of Prometheus' ServiceAccount, token its token.
	kubeconfig, token string
	client            controlplane.Pair
}

// newPrometheusAccess creates the ServiceAccount, and the certificate with which Prometheus authenticates to nodes, as docs/monitoring.md describes.
func (env *Env) newPrometheusAccess(ctx context.Context) (a prometheusAccess, err error) {
	root, err := Repository(ctx)
	if err != nil {
		return a, err
	}
	a.env, a.programs = env, prometheusoperator.Programs{Root: root, Dir: env.folder.Path}
	if a.token, err = env.prometheusToken(ctx, root); err != nil {
		return a, fmt.Errorf("creating the account of Prometheus: %w", err)
	}
	a.kubeconfig = filepath.Join(env.folder.Path, "prometheus.kubeconfig")
	if err := env.Lab.ControlPlane.KubeconfigFor(ctx, prometheusNamespace, prometheusAccount, a.kubeconfig); err != nil {
		return a, err
	}
	if a.client, err = env.Lab.ControlPlane.Issue(pkix.Name{CommonName: "windows-metrics"}); err != nil {
		return a, fmt.Errorf("creating a client certificate for Prometheus: %w", err)
	}
	return a, nil
}

// files returns the files that both configurations name.
func (a prometheusAccess) files() lab.PrometheusFiles {
	return lab.PrometheusFiles{"token": []byte(a.token), "ca.crt": a.env.Lab.ControlPlane.CA(), "tls.crt": a.client.Cert, "tls.key": a.client.Key}
}

// start starts Debian's Prometheus with a configuration of inLab, and a program that discovers the targets of the original
// configuration.
func (a prometheusAccess) start(ctx context.Context, config map[string]any, discovered []byte, files lab.PrometheusFiles) (*lab.Prometheus, error) {
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	if err := lab.Promtool(ctx, map[string][]byte{"prometheus.yml": text}, "check", "config", "--syntax-only", "prometheus.yml"); err != nil {
		return nil, err
	}
	prometheus, err := a.env.Lab.StartPrometheus(ctx, text, files)
	if err != nil {
		return nil, err
	}
	_, err = a.programs.Discovery(ctx, a.env.Lab.ControlPlane, discovered, a.kubeconfig, prometheus.Folder())
	return prometheus, err
}

// folderInLab is the folder of all files in a configuration of inLab.
const folderInLab = lab.PrometheusFolder + "/"

// inLab adapts a configuration to the lab's Prometheus: it replaces texts, and discovery in Kubernetes by files of targets.
func inLab(config []byte, replace ...string) (map[string]any, error) {
	replace = append(replace, "/var/run/secrets/kubernetes.io/serviceaccount/", folderInLab)
	var all map[string]any
	if err := yaml.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(string(config))), &all); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	jobs, _ := all["scrape_configs"].([]any)
	for _, j := range jobs {
		job, _ := j.(map[string]any)
		if _, inKubernetes := job["kubernetes_sd_configs"]; inKubernetes {
			delete(job, "kubernetes_sd_configs")
			file := folderInLab + prometheusoperator.TargetsFile(fmt.Sprint(job["job_name"]))
			job["file_sd_configs"] = []any{map[string]any{"files": []any{file}}}
		}
	}
	return all, nil
}

// prometheusToken creates the ServiceAccount with its permissions, and returns a token of it.
func (env *Env) prometheusToken(ctx context.Context, root string) (string, error) {
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
