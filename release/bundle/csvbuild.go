package bundle

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

//go:embed icon.svg
var icon []byte

//go:embed description.md
var description string

const repository = "https://github.com/windows-machine-config/wmco"

// csv builds the ClusterServiceVersion.
func (s Source) csv(p parts, minKubeVersion string) (c v1alpha1.ClusterServiceVersion, err error) {
	annotations, err := s.csvAnnotations(p.namespace)
	if err != nil {
		return c, err
	}
	number, err := semver.Parse(s.Version)
	if err != nil {
		return c, err
	}
	c = v1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(s.Version), Namespace: "placeholder", Annotations: annotations,
			// Consoles offer the operator on these architectures.
			Labels: map[string]string{"operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported", "operatorframework.io/os.linux": "supported"},
		},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName: "Windows Machine Config Operator", Description: description, Version: version.OperatorVersion{Version: number},
			Maturity: "alpha", MinKubeVersion: minKubeVersion,
			Keywords:    []string{"windows", "windows server", "node", "containerd", "kubelet", "machine"},
			Maintainers: []v1alpha1.Maintainer{{Name: s.Maintainer.Name, Email: s.Maintainer.Address}},
			Provider:    v1alpha1.AppLink{Name: "windows-machine-config", URL: repository},
			Links: []v1alpha1.AppLink{
				{Name: "Source code", URL: repository},
				{Name: "Documentation", URL: repository + "/blob/main/README.md"},
				{Name: "Troubleshooting", URL: repository + "/blob/main/docs/troubleshooting.md"},
			},
			Icon: []v1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString(icon), MediaType: "image/svg+xml"}},
			InstallModes: []v1alpha1.InstallMode{
				{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}, {Type: v1alpha1.InstallModeTypeSingleNamespace},
				{Type: v1alpha1.InstallModeTypeMultiNamespace}, {Type: v1alpha1.InstallModeTypeAllNamespaces},
			},
			CustomResourceDefinitions: definitions(),
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{
				ClusterPermissions: p.cluster, Permissions: p.own,
				DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: p.deployment.Name, Label: p.deployment.Labels, Spec: *p.deployment.Spec.DeepCopy()}},
			}},
			RelatedImages: []v1alpha1.RelatedImage{{Name: "operator", Image: s.Image}},
		},
	}
	if s.Replaces != "" {
		c.Spec.Replaces = Name(s.Replaces)
	}
	if n := len(c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers); n != 1 {
		return c, fmt.Errorf("the Deployment has %d containers, want 1", n)
	}
	manager := container(&c)
	manager.Image = s.Image
	// OLM installs no admission policies.
	manager.Args = append(slices.Clone(manager.Args), "--apply-policies")
	// WATCH_NAMESPACE has the namespaces of the OperatorGroup; the operator refuses any other than its own.
	manager.Env = append(slices.Clone(manager.Env), corev1.EnvVar{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['olm.targetNamespaces']"},
	}})
	return c, nil
}

// Name returns the name of the bundle and of the CSV of a version.
func Name(version string) string { return Package + ".v" + version }

// csvAnnotations returns the annotations that consoles and catalogs read. The keys features.operators.openshift.io/* are those of
// OpenShift's documentation for operators ("Infrastructure features").
func (s Source) csvAnnotations(namespace *unstructured.Unstructured) (map[string]string, error) {
	template := map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": namespace.GetName(), "labels": namespace.GetLabels(), "annotations": namespace.GetAnnotations()},
	}
	all := map[string]string{
		"capabilities":   "Seamless Upgrades",
		"categories":     "OpenShift Optional",
		"certified":      "false",
		"containerImage": s.Image,
		"createdAt":      s.Created.UTC().Format(time.RFC3339),
		"description":    "Makes Windows Server hosts nodes of the cluster, and keeps them configured and upgraded.",
		"repository":     repository,
		"support":        "windows-machine-config",

		"operatorframework.io/cluster-monitoring":  "true",
		"operatorframework.io/suggested-namespace": namespace.GetName(),
		"operator.openshift.io/uninstall-message": "Remove the Windows hosts first: delete ConfigMap windows-instances, then all WindowsInstances of this namespace, and wait until " +
			"they are gone. Without the operator, hosts cannot leave the cluster, and the namespace cannot be deleted. Admission policies stay; the documentation says how to delete them.",

		"features.operators.openshift.io/disconnected":     "true",
		"features.operators.openshift.io/proxy-aware":      "true",
		"features.operators.openshift.io/tls-profiles":     "true",
		"features.operators.openshift.io/fips-compliant":   "false",
		"features.operators.openshift.io/cnf":              "false",
		"features.operators.openshift.io/cni":              "false",
		"features.operators.openshift.io/csi":              "false",
		"features.operators.openshift.io/token-auth-aws":   "false",
		"features.operators.openshift.io/token-auth-azure": "false",
		"features.operators.openshift.io/token-auth-gcp":   "false",
	}
	for key, value := range map[string]any{
		"alm-examples": examples(namespace.GetName()),
		"operators.operatorframework.io/internal-objects":   []string{policySets},
		"operatorframework.io/initialization-resource":      windowsConfig(),
		"operatorframework.io/suggested-namespace-template": template,
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("writing annotation %s: %w", key, err)
		}
		all[key] = string(text)
	}
	return all, nil
}
