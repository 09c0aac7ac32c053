package deploy_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// The manifests are plain files, so nothing but this keeps their names those of the API.
func TestManifestsUseTheNamesOfTheAPI(t *testing.T) {
	for file, names := range map[string][]string{
		"namespace.yaml":       {"name: " + api.DefaultNamespace},
		"serviceaccounts.yaml": {"name: " + api.BootstrapServiceAccount, "namespace: " + api.DefaultNamespace},
		"rbac-operator.yaml": {
			"apiGroups: [" + api.GroupName + "]",
			"- " + api.PrivateKeySecret + " #",
			"(" + api.InstancesConfigMap + ")",
			"(" + api.TrustedCAConfigMap + ")",
			"resourceNames: [" + api.NodeSecrets + "]",
			"resourceNames: [" + api.SigningKeySecret + "]",
			"- " + api.PullSecret + " #",
			"resourceNames: [" + v1alpha1.FlannelConfigMap + "]",
			"resourceNames: [" + api.WICDRole + "]",
			"resourceNames: [" + api.BootstrapServiceAccount + "]",
			"- " + certificatesv1.KubeAPIServerClientKubeletSignerName + " #",
			"- " + certificatesv1.KubeletServingSignerName + " #",
			"- " + certificatesv1.KubeAPIServerClientSignerName + " #",
		},
		"openshift/machine-api.yaml":             {"resourceNames: [" + api.UserDataSecret + "]", "namespace: " + api.DefaultNamespace},
		"openshift/cluster-api/cluster-api.yaml": {"resourceNames: [" + api.UserDataSecret + "]", "namespace: " + api.DefaultNamespace},
		"openshift/pull-secret.yaml":             {"resourceNames: [" + api.PullSecret + "]", "namespace: " + api.DefaultNamespace},
		"olm/rbac.yaml":                          {"resourceNames: [" + api.UserDataSecret + "]"},
		"rbac-hosts.yaml":                        {"name: " + api.BootstrapServiceAccount, "name: " + api.WICDGroup, "name: " + api.WICDRole},
		"rbac-users.yaml":                        {"apiGroups: [" + api.GroupName + "]"},
		"admission.yaml": {
			"'" + api.AnnotationVersion + "'",
			"'" + api.AnnotationSettings + "'",
			"'" + api.ConditionServicesHealthy + "'",
			"== '" + api.WICDService + "'",
			"'" + api.WICDUserPrefix + "'",
			"'" + api.WICDGroup + "'",
			":" + api.BootstrapServiceAccount + "$'",
			"startsWith('" + api.ServicesConfigMapPrefix + "')",
		},
		"limits/admission.yaml": {
			":" + api.BootstrapServiceAccount + "'",
			"'" + api.WICDUserPrefix + "'",
			"'" + api.UserDataSecret + "'",
			"'" + api.NodeSecrets + "'",
			"'" + api.SigningKeySecret + "'",
			"== '" + api.ApprovalReason + "'",
			"startsWith('" + api.ServicesConfigMapPrefix + "')",
		},
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.Contains(string(content), name) {
				t.Errorf("%s does not contain %q", file, name)
			}
		}
	}
}

// The Secret of the metrics' certificate is named in three places.
func TestMetricsHaveTheirCertificate(t *testing.T) {
	content, err := os.ReadFile("deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const secret = "windows-machine-config-operator-metrics-cert"
	for _, line := range []string{
		"service.beta.openshift.io/serving-cert-secret-name: " + secret + "\n", "secretName: " + secret + "\n",
		"--metrics-cert-dir=/metrics-cert\n", "mountPath: /metrics-cert\n",
	} {
		if strings.Count(string(content), line) != 1 {
			t.Errorf("deployment.yaml does not have %q once", line)
		}
	}
}

// An operator that stands by, or waits for the API server, is alive and not Ready.
func TestAnOperatorThatIsNotReadyIsNotRestarted(t *testing.T) {
	content, err := os.ReadFile("deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096).Decode(&d); err != nil {
		t.Fatal(err)
	}
	c := d.Spec.Template.Spec.Containers[0]
	for name, probe := range map[string]*corev1.Probe{"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe} {
		if probe != nil && probe.HTTPGet.Path != "/healthz" {
			t.Errorf("%s asks %s, want /healthz", name, probe.HTTPGet.Path)
		}
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("the probes are %+v and %+v", c.LivenessProbe, c.ReadinessProbe)
	}
}
