package deploy_test

import (
	"os"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// The manifests are plain files, so nothing but this keeps their names those of the API.
func TestManifestsUseTheNamesOfTheAPI(t *testing.T) {
	for file, names := range map[string][]string{
		"namespace.yaml":       {"name: " + v1alpha1.DefaultNamespace},
		"serviceaccounts.yaml": {"name: " + v1alpha1.BootstrapServiceAccount, "namespace: " + v1alpha1.DefaultNamespace},
		"rbac-operator.yaml": {
			"apiGroups: [" + v1alpha1.GroupName + "]",
			"- " + v1alpha1.PrivateKeySecret + " #",
			"(" + v1alpha1.InstancesConfigMap + ")",
			"(" + v1alpha1.TrustedCAConfigMap + ")",
			"resourceNames: [" + v1alpha1.NodeSecrets + "]",
			"resourceNames: [" + v1alpha1.SigningKeySecret + "]",
			"- " + v1alpha1.PullSecret + " #",
			"resourceNames: [" + v1alpha1.FlannelConfigMap + "]",
			"resourceNames: [" + v1alpha1.WICDRole + "]",
			"resourceNames: [" + v1alpha1.BootstrapServiceAccount + "]",
			"- " + certificatesv1.KubeAPIServerClientKubeletSignerName + " #",
			"- " + certificatesv1.KubeletServingSignerName + " #",
			"- " + certificatesv1.KubeAPIServerClientSignerName + " #",
		},
		"openshift/machine-api.yaml":             {"resourceNames: [" + v1alpha1.UserDataSecret + "]", "namespace: " + v1alpha1.DefaultNamespace},
		"openshift/cluster-api/cluster-api.yaml": {"resourceNames: [" + v1alpha1.UserDataSecret + "]", "namespace: " + v1alpha1.DefaultNamespace},
		"openshift/pull-secret.yaml":             {"resourceNames: [" + v1alpha1.PullSecret + "]", "namespace: " + v1alpha1.DefaultNamespace},
		"rbac-hosts.yaml":                        {"name: " + v1alpha1.BootstrapServiceAccount, "name: " + v1alpha1.WICDGroup, "name: " + v1alpha1.WICDRole},
		"rbac-users.yaml":                        {"apiGroups: [" + v1alpha1.GroupName + "]"},
		"admission.yaml": {
			"'" + v1alpha1.AnnotationVersion + "'",
			"'" + v1alpha1.AnnotationSettings + "'",
			"'" + v1alpha1.ConditionServicesHealthy + "'",
			"== '" + v1alpha1.WICDService + "'",
			"'" + v1alpha1.WICDUserPrefix + "'",
			"'" + v1alpha1.WICDGroup + "'",
			":" + v1alpha1.BootstrapServiceAccount + "$'",
			"'" + v1alpha1.UserDataSecret + "'",
			"'" + v1alpha1.NodeSecrets + "'",
			"'" + v1alpha1.SigningKeySecret + "'",
			"== '" + v1alpha1.ApprovalReason + "'",
			"startsWith('" + v1alpha1.ServicesConfigMapPrefix + "')",
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
