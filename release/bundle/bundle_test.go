package bundle_test

import (
	"encoding/json"
	"maps"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/release/bundle"
	"github.com/windows-machine-config/wmco/release/manifests"
)

const (
	deploy   = "../../deploy"
	operator = "windows-machine-config-operator"
)

func source() bundle.Source {
	return bundle.Source{
		Deploy: deploy, Version: "1.2.0", Image: "quay.io/team/wmco@sha256:" + strings.Repeat("a1", 32), Replaces: "1.1.0",
		Created: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), Maintainer: mail.Address{Name: "Someone", Address: "someone@example.com"},
	}
}

func mustBuild(t *testing.T) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Build(source())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBundleIsComplete(t *testing.T) {
	b := mustBuild(t)
	var objects []string
	for _, o := range b.Objects {
		objects = append(objects, manifests.Key(o))
	}
	slices.Sort(objects)
	want := []string{
		"ClusterRole/windows-cloud-node-manager", "ClusterRole/windows-instance-config-daemon", "ClusterRole/windows-machine-config-admin",
		"ClusterRole/windows-machine-config-metrics", "ClusterRole/windows-machine-config-view",
		"ClusterRoleBinding/windows-cloud-node-manager", "ClusterRoleBinding/windows-instance-config-daemon",
		"CustomResourceDefinition/windowsconfigs.windowsmachineconfig.openshift.io", "CustomResourceDefinition/windowsinstances.windowsmachineconfig.openshift.io",
		"CustomResourceDefinition/windowspolicysets.windowsmachineconfig.openshift.io", "Role/windows-policy-sets",
		"RoleBinding/windows-instance-config-daemon", "RoleBinding/windows-policy-sets", "Service/windows-machine-config-operator-metrics",
	}
	if !slices.Equal(objects, want) {
		t.Errorf("the objects are\n%s\nwant\n%s", strings.Join(objects, "\n"), strings.Join(want, "\n"))
	}
	s := b.CSV.Spec
	if b.CSV.Name != operator+".v1.2.0" || s.Replaces != operator+".v1.1.0" || s.MinKubeVersion != "1.33.0" {
		t.Errorf("bundle %s replaces %s and requires Kubernetes %s", b.CSV.Name, s.Replaces, s.MinKubeVersion)
	}
	for _, key := range []string{"capabilities", "categories", "containerImage", "createdAt", "repository", "support", "description"} {
		if b.CSV.Annotations[key] == "" {
			t.Errorf("catalogs show annotation %s, which is missing", key)
		}
	}
	if len(s.DisplayName) > 50 || len(s.Description) < 20 || len(s.Keywords) == 0 || len(s.Links) == 0 {
		t.Errorf("catalogs reject a bundle with name %q, keywords %v, links %v and a description of %d bytes", s.DisplayName, s.Keywords, s.Links, len(s.Description))
	}
	for _, m := range s.InstallModes {
		if m.Supported != (m.Type == "OwnNamespace") {
			t.Errorf("install mode %s is supported: %v", m.Type, m.Supported)
		}
	}
	d := s.InstallStrategy.StrategySpec.DeploymentSpecs[0]
	c := d.Spec.Template.Spec.Containers[0]
	target := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "WATCH_NAMESPACE" })
	if d.Name != operator || c.Image != source().Image || s.RelatedImages[0].Image != c.Image || !slices.Contains(c.Args, "--apply-policies") ||
		target < 0 || c.Env[target].ValueFrom.FieldRef.FieldPath != "metadata.annotations['olm.targetNamespaces']" {
		t.Errorf("the Deployment is %s with container %+v", d.Name, c)
	}
	var compatibility bundle.Compatibility
	if err := json.Unmarshal(b.Properties[0].Value, &compatibility); err != nil || compatibility.UpgradesFrom != "1.1.0" || compatibility.KubernetesMinors[0] != "1.33" {
		t.Errorf("the property is %+v (%v)", compatibility, err)
	}
	var namespace corev1.Namespace
	if err := json.Unmarshal([]byte(b.CSV.Annotations["operatorframework.io/suggested-namespace-template"]), &namespace); err != nil ||
		namespace.Labels["pod-security.kubernetes.io/enforce"] != "privileged" || namespace.Name != "openshift-"+operator {
		t.Errorf("the suggested namespace is %+v (%v)", namespace, err)
	}
}

// TestBundleContainsOnlyStandardKinds: an InstallPlan with a missing kind fails permanently, even if the kind is
// installed later.
func TestBundleContainsOnlyStandardKinds(t *testing.T) {
	served := []string{"v1", "rbac.authorization.k8s.io/v1", "apiextensions.k8s.io/v1"}
	for _, o := range mustBuild(t).Objects {
		if !slices.Contains(served, o.GetAPIVersion()) {
			t.Errorf("%s has API version %s, which some clusters lack; all clusters have %s", manifests.Key(o), o.GetAPIVersion(), strings.Join(served, ", "))
		}
	}
}

func TestBundleReplacesOlderVersion(t *testing.T) {
	for replaces, allowed := range map[string]bool{"": true, "1.1.0": true, "1.2.0-rc.1": true, "1.2.0": false, "1.3.0": false, "1.10.0": false, "2.0.0-rc.1": false} {
		s := source()
		s.Replaces = replaces
		if _, err := bundle.Build(s); (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), "must be older than") {
			t.Errorf("1.2.0 replaces %q: %v", replaces, err)
		}
	}
}

func TestBundleIsReproducible(t *testing.T) {
	a, errA := mustBuild(t).Files()
	b, errB := mustBuild(t).Files()
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	names := slices.Sorted(maps.Keys(a))
	for _, name := range names {
		if string(a[name]) != string(b[name]) {
			t.Errorf("%s differs", name)
		}
		if !strings.Contains(name, "customresourcedefinition") && strings.Contains(string(a[name]), "creationTimestamp") { // schemas name fields
			t.Errorf("%s has fields that only a cluster writes", name)
		}
	}
	if !slices.Contains(names, "metadata/annotations.yaml") || !slices.Contains(names, "metadata/properties.yaml") ||
		!slices.Contains(names, "manifests/"+operator+".clusterserviceversion.yaml") || len(names) != 18 {
		t.Errorf("files are %v", names)
	}
	var csv struct{ Spec struct{ Description string } }
	if err := yaml.Unmarshal(a["manifests/"+operator+".clusterserviceversion.yaml"], &csv); err != nil || !strings.Contains(csv.Spec.Description, "cloud-private-key") {
		t.Errorf("the description is %q (%v)", csv.Spec.Description, err)
	}
}

// grants returns permissions, each as one string of resource, name and verb. An empty name means any name.
func grants(rules []rbacv1.PolicyRule) map[string]bool {
	all := map[string]bool{}
	anyOf := func(list []string) []string {
		if len(list) == 0 {
			return []string{""}
		}
		return list
	}
	for _, r := range rules {
		for _, group := range anyOf(r.APIGroups) {
			for _, resource := range slices.Concat(r.Resources, r.NonResourceURLs) {
				for _, name := range anyOf(r.ResourceNames) {
					for _, verb := range r.Verbs {
						all[strings.Join([]string{group, resource, name, verb}, " ")] = true
					}
				}
			}
		}
	}
	return all
}

func roleRules(t *testing.T, part manifests.Part, kind, name string) []rbacv1.PolicyRule {
	t.Helper()
	objects, err := manifests.Load(deploy, part)
	if err != nil {
		t.Fatal(err)
	}
	role, found, err := manifests.Find[rbacv1.ClusterRole](objects, kind, name)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	return role.Rules
}

// TestBundlePermissionsMatchDeploy lists the permissions that the operator has only with OLM.
func TestBundlePermissionsMatchDeploy(t *testing.T) {
	b := mustBuild(t)
	permitted := func(all []v1alpha1.StrategyDeploymentPermissions, account string) map[string]bool {
		var rules []rbacv1.PolicyRule
		for _, p := range all {
			if p.ServiceAccountName == account {
				rules = append(rules, p.Rules...)
			}
		}
		return grants(rules)
	}
	install := b.CSV.Spec.InstallStrategy.StrategySpec
	for about, tc := range map[string]struct {
		have, want map[string]bool
	}{
		"in its namespace": {permitted(install.Permissions, operator), grants(roleRules(t, manifests.Base, "Role", operator))},
		"in the cluster": {permitted(install.ClusterPermissions, operator), grants(slices.Concat(
			roleRules(t, manifests.Base, "ClusterRole", operator), roleRules(t, "olm", "ClusterRole", operator+"-olm"),
			[]rbacv1.PolicyRule{
				{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
				{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
			}))},
		"of joining hosts": {permitted(install.ClusterPermissions, "windows-node-bootstrapper"), grants([]rbacv1.PolicyRule{
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
		})},
	} {
		for grant := range tc.have {
			if !tc.want[grant] {
				t.Errorf("permissions %s: unexpected %q", about, grant)
			}
			delete(tc.want, grant)
		}
		for grant := range tc.want {
			t.Errorf("permissions %s: missing %q", about, grant)
		}
	}
	if n := len(install.Permissions) + len(install.ClusterPermissions); n != 3 {
		t.Errorf("%d permissions, want 3", n)
	}
}

// TestPermissionsInOtherNamespacesNameObjects checks Secrets, ConfigMaps and policies.
func TestPermissionsInOtherNamespacesNameObjects(t *testing.T) {
	for _, p := range mustBuild(t).CSV.Spec.InstallStrategy.StrategySpec.ClusterPermissions {
		for _, r := range p.Rules {
			for _, resource := range r.Resources {
				named := []string{"secrets", "configmaps", "validatingadmissionpolicies", "validatingadmissionpolicybindings"}
				if slices.Contains(named, resource) && len(r.ResourceNames) == 0 {
					t.Errorf("%s may %v %s of any name", p.ServiceAccountName, r.Verbs, resource)
				}
				if resource == "secrets" && slices.Contains(r.Verbs, "create") {
					t.Errorf("%s may create Secrets in every namespace, with tokens of any account", p.ServiceAccountName)
				}
			}
		}
	}
}

// TestStrongPermissionsRequireLimits expects that a bundle does not grant permissions that only the limits restrict.
func TestStrongPermissionsRequireLimits(t *testing.T) {
	b := mustBuild(t)
	var rules []rbacv1.PolicyRule
	for _, p := range b.CSV.Spec.InstallStrategy.StrategySpec.ClusterPermissions {
		rules = append(rules, p.Rules...)
	}
	permitted := grants(rules)
	for _, strong := range []string{" pods  patch", " secrets pull-secret get", " secrets pull-secret list", " secrets windows-user-data delete", "machine.openshift.io machines  delete"} {
		if permitted[strong] {
			t.Errorf("%q is permitted", strong)
		}
	}
	if !grants(roleRules(t, "limits", "ClusterRole", operator+"-pods"))[" pods  patch"] {
		t.Error("deploy/limits does not permit patching pods")
	}
	for _, o := range b.Objects {
		if o.GetName() == operator+"-pods" {
			t.Errorf("the bundle has %s %s", o.GetKind(), o.GetName())
		}
	}
	if before, _, _ := strings.Cut(b.CSV.Spec.Description, "### After"); !strings.Contains(before, "oc apply -k deploy/limits") {
		t.Error("the description does not require applying the limits first")
	}
}

func TestInvalidSourceIsRejected(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*bundle.Source)
		want   string
	}{
		"a commit as version":  {func(s *bundle.Source) { s.Version = "8aee4bd" }, `version "8aee4bd" must be a semantic version`},
		"a tag as version":     {func(s *bundle.Source) { s.Version = "v1.2.0" }, `version "v1.2.0"`},
		"build metadata":       {func(s *bundle.Source) { s.Version = "1.2.0+1" }, `version "1.2.0+1"`},
		"a name for replaces":  {func(s *bundle.Source) { s.Replaces = operator + ".v1.1.0" }, "replaced version"},
		"an image with a tag":  {func(s *bundle.Source) { s.Image = "quay.io/team/wmco:1.2.0" }, "must have its registry and its digest"},
		"no maintainer":        {func(s *bundle.Source) { s.Maintainer = mail.Address{} }, "csv.Spec.Maintainers"},
		"no manifests":         {func(s *bundle.Source) { s.Deploy = t.TempDir() }, "building kustomize folder"},
		"a version of 60 more": {func(s *bundle.Source) { s.Version = "1.2.0-" + strings.Repeat("a", 60) }, "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			s := source()
			tc.change(&s)
			if _, err := bundle.Build(s); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %s", err, tc.want)
			}
		})
	}
}
