//go:build linux

package testenv

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/deploy/monitoring"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/cluster/prometheusoperator"
)

// A PrometheusOperator generates the configurations of Prometheuses in the cluster of an Env.
type PrometheusOperator struct{ prometheusAccess }

// Managed determines which Prometheus operator generates a configuration, and from which objects.
type Managed struct {
	Version prometheusoperator.Version
	// Role is field serviceDiscoveryRole of the Prometheus.
	Role string
	// Objects is the folder with the ServiceMonitors, below deploy.
	Objects string
}

// name returns the name of the Prometheus. Each has its own name, so that none reads the output of another version.
func (m Managed) name() string {
	return "p" + strings.NewReplacer(".", "-", "/", "-").Replace(strings.ToLower(string(m.Version)+"-"+m.Role+"-"+filepath.Base(m.Objects)))
}

// KubeState is the job of kube-state-metrics.
const KubeState = "kube-state-metrics"

const (
	kubeletService  = "kubelet"
	managedInterval = "5s"
)

// NewPrometheusOperator prepares the cluster as docs/monitoring.md describes, and starts kube-state-metrics.
func (env *Env) NewPrometheusOperator(ctx context.Context) (*PrometheusOperator, error) {
	access, err := env.newPrometheusAccess(ctx)
	if err != nil {
		return nil, err
	}
	job, err := env.startKubeState(ctx, access.programs)
	if err != nil {
		return nil, err
	}
	jobs, err := yaml.Marshal([]any{job})
	return &PrometheusOperator{access}, errors.Join(
		err,
		env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-monitoring"}}),
		env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-config-managed"}}),
		env.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: monitoring.ClientCertificate},
			Data:       map[string][]byte{corev1.TLSCertKey: access.client.Cert, corev1.TLSPrivateKeyKey: access.client.Key},
		}),
		env.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: prometheusNamespace, Name: KubeState}, Data: map[string][]byte{"jobs": jobs},
		}),
		env.permitInKubeSystem(ctx),
	)
}

// permitInKubeSystem grants Prometheus the permissions with which kube-prometheus discovers kubelets.
func (env *Env) permitInKubeSystem(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: prometheusAccount}
	read := []string{"get", "list", "watch"}
	return errors.Join(
		env.Client.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services", "endpoints", "pods"}, Verbs: read},
			{APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: read},
		}}),
		env.Client.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: prometheusAccount},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: prometheusNamespace, Name: prometheusAccount}},
		}),
	)
}

// startKubeState starts kube-state-metrics, and returns the job that scrapes it.
func (env *Env) startKubeState(ctx context.Context, programs prometheusoperator.Programs) (job map[string]any, err error) {
	address := env.Lab.Address()
	number, err := lab.FreePort(address)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(number)
	_, err = programs.KubeState(ctx, env.Lab.ControlPlane, env.Kubeconfig, address, port)
	targets := []any{net.JoinHostPort(address, port)}
	return map[string]any{"job_name": KubeState, "honor_labels": true, "static_configs": []any{map[string]any{"targets": targets}}}, err
}

// Start starts Debian's Prometheus with the configuration that the Prometheus operator generates from the objects.
func (o *PrometheusOperator) Start(ctx context.Context, m Managed) (*lab.Prometheus, error) {
	output, err := o.generate(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("running Prometheus operator %s: %w", m.Version, err)
	}
	// In a cluster, the container next to a Prometheus replaces the variables.
	config, err := inLab(output.config, "/etc/prometheus/certs/", folderInLab, "/etc/prometheus/rules/prometheus-"+m.name()+"-rulefiles-0/", folderInLab,
		"/etc/prometheus/secrets/metrics-client-certs/", folderInLab, "/etc/prometheus/configmaps/serving-certs-ca-bundle/", folderInLab,
		"/etc/prometheus/configmaps/kubelet-serving-ca-bundle/ca-bundle.crt", folderInLab+"ca.crt", "scrape_interval: 30s", "scrape_interval: "+managedInterval,
		"$(SHARD)", "0", "$(POD_NAME)", m.name())
	if err != nil {
		return nil, err
	}
	files := o.files()
	files["service-ca.crt"] = o.env.Lab.RegistryCA()
	maps.Copy(files, output.files)
	return o.start(ctx, config, output.config, files)
}

// generated is the output of a Prometheus operator: the configuration, and the files for certificates and rules.
type generated struct {
	config []byte
	files  map[string][]byte
}

// generate runs the Prometheus operator until it has generated its whole output.
func (o *PrometheusOperator) generate(ctx context.Context, m Managed) (output generated, err error) {
	config := o.env.Lab.ControlPlane.RESTConfig()
	kinds, err := m.Version.Definitions(ctx, o.programs.Root, prometheusoperator.Kinds()...)
	if err != nil {
		return output, err
	}
	if err := manifest.ApplyObjects(ctx, config, kinds); err != nil {
		return output, err
	}
	if err := manifest.Apply(ctx, config, filepath.Join(o.programs.Root, "deploy", m.Objects)); err != nil {
		return output, err
	}
	if err := manifest.ApplyObjects(ctx, config, []*unstructured.Unstructured{m.prometheus()}); err != nil {
		return output, err
	}
	program, err := o.programs.Operator(ctx, o.env.Lab.ControlPlane, m.Version, o.env.Kubeconfig)
	if err != nil {
		return output, err
	}
	defer program.Stop()
	var missing error
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, lab.Timeout(2*time.Minute), true, func(ctx context.Context) (bool, error) {
		output, missing = o.read(ctx, m)
		return missing == nil, program.Failure()
	})
	if err != nil {
		return output, fmt.Errorf("%w: %w; its log ends with:\n%s", err, missing, program.Log(3000))
	}
	return output, nil
}

// prometheus returns a Prometheus without pods, of the version that Debian has.
func (m Managed) prometheus() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": map[string]any{"namespace": prometheusNamespace, "name": m.name()},
		"spec": map[string]any{
			"replicas": int64(0), "version": "v2.42.0", "serviceAccountName": prometheusAccount, "evaluationInterval": managedInterval,
			"serviceMonitorSelector": map[string]any{}, "serviceMonitorNamespaceSelector": map[string]any{},
			"ruleSelector": map[string]any{}, "ruleNamespaceSelector": map[string]any{}, "serviceDiscoveryRole": m.Role,
			"additionalScrapeConfigs": map[string]any{"name": KubeState, "key": "jobs"},
		},
	}}
}

// read reads the output of the Prometheus operator, or returns an error that names the missing part.
func (o *PrometheusOperator) read(ctx context.Context, m Managed) (output generated, err error) {
	output.files = map[string][]byte{}
	var secrets corev1.SecretList
	if err := o.env.Client.List(ctx, &secrets, client.InNamespace(prometheusNamespace)); err != nil {
		return output, err
	}
	certificates := false
	for _, s := range secrets.Items {
		switch {
		case s.Name == "prometheus-"+m.name():
			if output.config, err = unzip(s.Data["prometheus.yaml.gz"]); err != nil {
				return output, err
			}
		case strings.HasPrefix(s.Name, "prometheus-"+m.name()+"-tls-assets"):
			certificates = true
			for name, content := range s.Data {
				output.files[name] = content
			}
		}
	}
	if !certificates {
		return output, errors.New("the Secret for certificates is missing")
	}
	if jobs := strings.Count(string(output.config), "job_name: serviceMonitor/"+api.DefaultNamespace+"/"); jobs != 3 {
		return output, fmt.Errorf("the configuration has %d jobs for the ServiceMonitors, want 3", jobs)
	}
	rules := 0
	var configMaps corev1.ConfigMapList
	if err := o.env.Client.List(ctx, &configMaps, client.InNamespace(prometheusNamespace)); err != nil {
		return output, err
	}
	for _, c := range configMaps.Items {
		if strings.HasPrefix(c.Name, "prometheus-"+m.name()+"-rulefiles") {
			for name, content := range c.Data {
				output.files[name], rules = []byte(content), rules+1
			}
		}
	}
	if rules != 2 {
		return output, fmt.Errorf("got %d files with rules, want 2", rules)
	}
	return output, o.hasKubelets(ctx)
}

// hasKubelets returns an error until Service kube-system/kubelet has endpoints of both kinds.
func (o *PrometheusOperator) hasKubelets(ctx context.Context) error {
	var slices discoveryv1.EndpointSliceList
	own := client.MatchingLabels{discoveryv1.LabelServiceName: kubeletService}
	if err := o.env.Client.List(ctx, &slices, client.InNamespace(metav1.NamespaceSystem), own); err != nil {
		return err
	}
	endpoints := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}}
	err := o.env.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: kubeletService}, endpoints)
	if err == nil && len(slices.Items) == 0 {
		err = errors.New("Service kubelet has no EndpointSlice")
	}
	return err
}

func unzip(content []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
