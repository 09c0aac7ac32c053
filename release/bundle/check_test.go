package bundle_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/release/bundle"
)

// TestTheRulesOfTheValidators breaks each rule once.
func TestTheRulesOfTheValidators(t *testing.T) {
	annotation := func(key, value string) func(*bundle.Bundle) {
		return func(b *bundle.Bundle) { b.CSV.Annotations[key] = value }
	}
	object := func(kind, name string) func(*bundle.Bundle) {
		return func(b *bundle.Bundle) {
			b.Objects = append(b.Objects, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}})
		}
	}
	may := func(verb, resource string) func(*bundle.Bundle) {
		return func(b *bundle.Bundle) {
			p := &b.CSV.Spec.InstallStrategy.StrategySpec.Permissions[0]
			p.Rules = append(p.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}})
		}
	}
	built := mustBuild(t)
	for name, tc := range map[string]struct {
		breaks func(*bundle.Bundle)
		want   string
	}{
		"name and version":       {func(b *bundle.Bundle) { b.CSV.Name = operator + ".v1.3.0" }, "metadata.name"},
		"name in capitals":       {func(b *bundle.Bundle) { b.CSV.Spec.Replaces = "Operator.v1" }, "spec.replaces"},
		"long display name":      {func(b *bundle.Bundle) { b.CSV.Spec.DisplayName = strings.Repeat("x", 51) }, "spec.displayName"},
		"no description":         {func(b *bundle.Bundle) { b.CSV.Spec.Description = "short" }, "spec.description"},
		"no minKubeVersion":      {func(b *bundle.Bundle) { b.CSV.Spec.MinKubeVersion = "1.33" }, "csv.Spec.MinKubeVersion has an invalid value"},
		"no keywords":            {func(b *bundle.Bundle) { b.CSV.Spec.Keywords = nil }, "spec.keywords"},
		"no mail address":        {func(b *bundle.Bundle) { b.CSV.Spec.Maintainers[0].Email = "someone" }, "csv.Spec.Maintainers email someone is invalid"},
		"link without https":     {func(b *bundle.Bundle) { b.CSV.Spec.Links[0].URL = "example.com" }, "spec.links"},
		"two icons":              {func(b *bundle.Bundle) { b.CSV.Spec.Icon = append(b.CSV.Spec.Icon, b.CSV.Spec.Icon[0]) }, "csv.Spec.Icon should only have one element"},
		"icon of another type":   {func(b *bundle.Bundle) { b.CSV.Spec.Icon[0].MediaType = "image/webp" }, "image/webp"},
		"no install mode":        {func(b *bundle.Bundle) { b.CSV.Spec.InstallModes[0].Supported = false }, "none of InstallModeTypes are supported"},
		"capability":             {annotation("capabilities", "Magic"), `"Magic" is not a valid capabilities level`},
		"category":               {annotation("categories", "Networking, Windows"), `Windows" is not in the set of standard categories`},
		"no repository":          {annotation("repository", ""), "repository is missing"},
		"time":                   {annotation("createdAt", "today"), "createdAt"},
		"image without tag":      {annotation("containerImage", "wmco"), "neither tag nor digest"},
		"case of an annotation":  {annotation("olm.skiprange", "x"), "should be olm.skipRange"},
		"properties":             {annotation("olm.properties", "[]"), "metadata/properties.yaml"},
		"examples that are none": {annotation("alm-examples", "x"), "invalid example"},
		"example of another kind": {annotation("alm-examples", `[{"apiVersion":"v1","kind":"Pod"}]`),
			"example must have a provided API"},
		"no example":         {annotation("alm-examples", `[]`), "provided API should have an example annotation"},
		"image not related":  {func(b *bundle.Bundle) { b.CSV.Spec.RelatedImages = nil }, "spec.relatedImages does not list its image"},
		"image with a tag":   {func(b *bundle.Bundle) { b.CSV.Spec.RelatedImages[0].Image = "quay.io/team/wmco:1" }, "must have a name and a digest"},
		"no requests":        {func(b *bundle.Bundle) { firstContainer(b).Resources.Requests = nil }, "no requests of cpu and memory"},
		"creates kinds":      {may("create", "customresourcedefinitions"), "create customresourcedefinitions"},
		"changes SCCs":       {may("update", "securitycontextconstraints"), "update securitycontextconstraints"},
		"admission policies": {object("ValidatingAdmissionPolicy", "x"), "OLM does not install this kind"},
		"runtime classes":    {object("RuntimeClass", "x"), "OLM does not install this kind"},
		"network policies":   {object("NetworkPolicy", "x"), "OLM does not install this kind"},
		"pod monitors":       {object("PodMonitor", "x"), "OLM does not install this kind"},
		"account of the CSV": {object("ServiceAccount", operator), "invalid service account found in bundle"},
		"object in a namespace": {func(b *bundle.Bundle) { b.Objects[len(b.Objects)-1].SetNamespace("openshift-machine-api") },
			"it has namespace openshift-machine-api"},
		"CRD that is not owned": {func(b *bundle.Bundle) {
			b.CSV.Spec.CustomResourceDefinitions.Owned = b.CSV.Spec.CustomResourceDefinitions.Owned[1:]
		}, "but not defined in CSV"},
		"owned without CRD":   {func(b *bundle.Bundle) { b.CSV.Spec.CustomResourceDefinitions.Owned[0].Version = "v2" }, `v2, Kind=WindowsConfig" not found in bundle`},
		"owned without words": {func(b *bundle.Bundle) { b.CSV.Spec.CustomResourceDefinitions.Owned[0].Description = "" }, "has an empty description"},
		"path that is not there": {func(b *bundle.Bundle) {
			b.CSV.Spec.CustomResourceDefinitions.Owned[0].SpecDescriptors[0].Path = "network.providers"
		}, "descriptor network.providers"},
		"channel":            {func(b *bundle.Bundle) { b.Annotations["operators.operatorframework.io.bundle.channels.v1"] = "alpha" }, `channel(s) ["alpha"] are not following`},
		"range of OpenShift": {func(b *bundle.Bundle) { delete(b.Annotations, "com.redhat.openshift.versions") }, "com.redhat.openshift.versions is missing"},
		"package": {func(b *bundle.Bundle) { b.Annotations["operators.operatorframework.io.bundle.package.v1"] = "x" },
			"not of package"},
		"property":      {func(b *bundle.Bundle) { b.Properties[0].Value = []byte("{") }, "not valid here"},
		"too large":     {func(b *bundle.Bundle) { b.CSV.Spec.Icon[0].Data = base64.StdEncoding.EncodeToString(noise(1 << 20)) }, "compressed size"},
		"two names":     {func(b *bundle.Bundle) { b.Objects = append(b.Objects, b.Objects[0]) }, "two objects have this name"},
		"no Deployment": {func(b *bundle.Bundle) { b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = nil }, "unable to find a deployment to install"},
	} {
		t.Run(name, func(t *testing.T) {
			b := copyOf(t, built)
			tc.breaks(b)
			if err := b.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want one that says %s", err, tc.want)
			}
		})
	}
}

// copyOf returns a copy that can be changed, which is faster than a build.
func copyOf(t *testing.T, b *bundle.Bundle) *bundle.Bundle {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	again := &bundle.Bundle{}
	if err := json.Unmarshal(text, again); err != nil {
		t.Fatal(err)
	}
	return again
}

func firstContainer(b *bundle.Bundle) *corev1.Container {
	return &b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
}

// noise returns bytes that do not compress.
func noise(n int) []byte {
	all, x := make([]byte, n), uint32(1)
	for i := range all {
		x = x*1664525 + 1013904223
		all[i] = byte(x >> 24)
	}
	return all
}
