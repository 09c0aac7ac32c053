package bundle_test

import (
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/release/chart"
	"github.com/windows-machine-config/wmco/release/manifests"
)

// The resolver of the cluster completes names by its search list: a Service would answer for the host win1.lan, and a pod for the proxy.
func TestNoInstallationAsksTheClusterForNames(t *testing.T) {
	objects, err := manifests.Load(deploy, manifests.Base)
	if err != nil {
		t.Fatal(err)
	}
	d, found, err := manifests.Find[appsv1.Deployment](objects, "Deployment", operator)
	if err != nil || !found {
		t.Fatalf("there is a Deployment: %v (%v)", found, err)
	}
	policies := map[string]string{"deploy/": string(d.Spec.Template.Spec.DNSPolicy)}
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
