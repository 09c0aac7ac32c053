package bundle_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/release/chart"
	"github.com/windows-machine-config/wmco/release/image"
	"github.com/windows-machine-config/wmco/release/manifests"
)

// TestInstallationsSelectSupportedArchitectures: on a cluster whose control plane also has other processors, the pod would not start on
// those nodes.
func TestInstallationsSelectSupportedArchitectures(t *testing.T) {
	b := mustBuild(t)
	files, err := b.Files()
	if err != nil {
		t.Fatal(err)
	}
	var csv struct {
		Metadata metav1.ObjectMeta
		Spec     struct {
			Install struct {
				Spec struct {
					Deployments []struct{ Spec appsv1.DeploymentSpec }
				}
			}
		}
	}
	if err := yaml.Unmarshal(files["manifests/"+operator+".clusterserviceversion.yaml"], &csv); err != nil || len(csv.Spec.Install.Spec.Deployments) != 1 {
		t.Fatalf("the CSV is %+v (%v)", csv, err)
	}
	var labels []string
	for key := range csv.Metadata.Labels {
		if arch, found := strings.CutPrefix(key, "operatorframework.io/arch."); found {
			labels = append(labels, arch)
		}
	}
	slices.Sort(labels)
	index, err := b.Image(image.Source{Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var built []string
	for _, d := range manifest.Manifests {
		built = append(built, d.Platform.Architecture)
	}
	for name, pod := range map[string]corev1.PodSpec{"deploy/": deployed(t).Spec.Template.Spec, "the bundle": csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec} {
		if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			t.Errorf("%s has no node affinity", name)
			continue
		}
		terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		want := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: built}}}}
		if !equality.Semantic.DeepEqual(terms, want) {
			t.Errorf("the node affinity of %s is %v, want %v", name, terms, want)
		}
	}
	if !slices.Equal(labels, built) {
		t.Errorf("the bundle supports %v, but images are built for %v", labels, built)
	}
}

func deployed(t *testing.T) appsv1.Deployment {
	t.Helper()
	objects, err := manifests.Load(deploy, manifests.Base)
	if err != nil {
		t.Fatal(err)
	}
	d, found, err := manifests.Find[appsv1.Deployment](objects, "Deployment", operator)
	if err != nil || !found {
		t.Fatalf("Deployment found: %v (%v)", found, err)
	}
	return d
}

// TestInstallationsBypassClusterDNS: the cluster's resolver completes names by its search list, so a Service could answer for
// host win1.lan, and a pod for the proxy.
func TestInstallationsBypassClusterDNS(t *testing.T) {
	policies := map[string]string{"deploy/": string(deployed(t).Spec.Template.Spec.DNSPolicy)}
	for _, d := range mustBuild(t).CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		policies["the bundle"] += string(d.Spec.Template.Spec.DNSPolicy)
	}
	files, err := chart.Files(chart.Source{Deploy: deploy, Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range files {
		if m := regexp.MustCompile(`(?m)^ +dnsPolicy: (\S+)$`).FindSubmatch(content); m != nil {
			policies["the chart"] += string(m[1])
		}
	}
	for _, name := range []string{"deploy/", "the bundle", "the chart"} {
		if policies[name] != string(corev1.DNSDefault) {
			t.Errorf("dnsPolicy of %s is %q, want Default, the resolver of the node", name, policies[name])
		}
	}
}
