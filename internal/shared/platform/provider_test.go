package platform_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

func TestChooseProvider(t *testing.T) {
	const auto, external, none = v1alpha1.CloudProviderAuto, v1alpha1.CloudProviderExternal, v1alpha1.CloudProviderNone
	openshift := func(kind string) platform.Evidence { return platform.Evidence{OpenShift: true, Type: kind} }
	withState := func(state string) platform.Evidence {
		return platform.Evidence{OpenShift: true, Type: "External", ControllerManager: state}
	}
	with := func(e platform.Evidence) platform.Evidence { e.NodeManager = true; return e }
	nodes := func(ids ...string) platform.Evidence { return platform.Evidence{ProviderIDs: ids} }
	tests := []struct {
		name     string
		setting  v1alpha1.CloudProvider
		evidence platform.Evidence
		external bool
		platform string
		why      string
	}{
		{"OpenShift on AlibabaCloud", auto, openshift("AlibabaCloud"), true, "", "AlibabaCloud"},
		{"OpenShift on AWS", auto, openshift("AWS"), true, "", "AWS"},
		{"OpenShift on Azure", auto, openshift("Azure"), false, "", "cloud-node-manager"},
		{"OpenShift on Azure with the program", auto, with(openshift("Azure")), true, "", `"Azure"`},
		{"OpenShift on AWS with the program of Azure", auto, with(openshift("AWS")), true, "", "AWS"},
		{"OpenShift on BareMetal with the program of Azure", auto, with(openshift("BareMetal")), false, "", "BareMetal"},
		{"OpenShift on GCP", auto, openshift("GCP"), true, "", "GCP"},
		{"OpenShift on IBMCloud", auto, openshift("IBMCloud"), true, "", "IBMCloud"},
		{"OpenShift on KubeVirt", auto, openshift("KubeVirt"), true, "", "KubeVirt"},
		{"OpenShift on Nutanix", auto, openshift("Nutanix"), true, "", "Nutanix"},
		{"OpenShift on OpenStack", auto, openshift("OpenStack"), true, "", "OpenStack"},
		{"OpenShift on PowerVS", auto, openshift("PowerVS"), true, "", "PowerVS"},
		{"OpenShift on VSphere", auto, openshift("VSphere"), true, "", "VSphere"},
		{"OpenShift on BareMetal", auto, openshift("BareMetal"), false, "", "BareMetal"},
		{"OpenShift on None", auto, openshift("None"), false, "", "None"},
		{"OpenShift on oVirt", auto, openshift("oVirt"), false, "", "oVirt"},
		{"OpenShift that does not say", auto, openshift(""), false, "", `type ""`},
		{"External with a controller", auto, withState("External"), true, "", "cloudControllerManager.state"},
		{"External without", auto, withState("None"), false, "", "cloudControllerManager.state"},
		{"External that does not say", auto, withState(""), false, "", "cloudControllerManager.state"},
		{"OpenShift tells, its nodes do not count", auto,
			platform.Evidence{OpenShift: true, Type: "None", ProviderIDs: []string{"aws:///a/i-1"}}, false, "", "None"},

		{"no provider ID", auto, nodes(), false, "", "no Linux node"},
		{"AWS", auto, nodes("aws:///us-east-1a/i-1", "aws:///us-east-1b/i-2"), true, platform.AWS, `"aws"`},
		{"Azure", auto, nodes("azure:///subscriptions/s/x"), false, "", "cloud-node-manager"},
		{"Azure with the program", auto, with(nodes("azure:///subscriptions/s/x")), true, platform.Azure, `"azure"`},
		{"None on Azure with the program", none, with(nodes("azure:///subscriptions/s/x")), false, "", "spec.cloudProvider"},
		{"GCP", auto, nodes("gce://project/zone/vm"), true, platform.GCP, `"gce"`},
		{"vSphere", auto, nodes("vsphere://4237"), true, "", `"vsphere"`},
		{"kind", auto, nodes("kind://docker/kind/kind-control-plane"), false, "", "External"},
		{"k3s", auto, nodes("k3s://server"), false, "", "External"},
		{"metal3", auto, nodes("metal3://ns/host/machine"), false, "", "External"},
		{"no scheme", auto, nodes("cn-hangzhou.i-1"), false, "", `""`},
		{"a hostile one", auto, nodes(strings.Repeat("a", 5000) + "://x"), false, "", `""`},
		{"two clouds", auto, nodes("aws:///a/i-1", "gce://p/z/v"), false, "", `"aws" and "gce"`},
		{"not set is Auto", "", nodes("aws:///a/i-1"), true, platform.AWS, `"aws"`},

		{"External on bare metal", external, nodes(), true, "", "spec.cloudProvider"},
		{"External on k3s", external, nodes("k3s://server"), true, "", "spec.cloudProvider"},
		{"External on AWS has its names", external, nodes("aws:///a/i-1"), true, platform.AWS, "spec.cloudProvider"},
		{"External on Azure", external, nodes("azure:///subscriptions/s/x"), true, platform.Azure, "spec.cloudProvider"},
		{"None on AWS", none, nodes("aws:///a/i-1"), false, "", "spec.cloudProvider"},
		{"None on OpenShift", none, openshift("AWS"), false, "", "spec.cloudProvider"},
	}
	for _, test := range tests {
		got := platform.ChooseProvider(test.setting, test.evidence)
		if got.External != test.external || got.Platform != test.platform || !strings.Contains(got.Why, test.why) || len(got.Why) > 400 {
			t.Errorf("%s: got %+v, want external %v, platform %q, and %q in the reason", test.name, got, test.external, test.platform, test.why)
		}
	}
}

// TestOnlyNodesOfAzureInitializeThemselves expects NodeManager on Azure only, even if the payload lacks the program.
func TestOnlyNodesOfAzureInitializeThemselves(t *testing.T) {
	for name, test := range map[string]struct {
		setting  v1alpha1.CloudProvider
		evidence platform.Evidence
		want     bool
	}{
		"OpenShift on Azure":     {v1alpha1.CloudProviderAuto, platform.Evidence{OpenShift: true, Type: "Azure"}, true},
		"Azure":                  {v1alpha1.CloudProviderAuto, platform.Evidence{ProviderIDs: []string{"azure:///x"}}, true},
		"External on Azure":      {v1alpha1.CloudProviderExternal, platform.Evidence{ProviderIDs: []string{"azure:///x"}}, true},
		"None on Azure":          {v1alpha1.CloudProviderNone, platform.Evidence{ProviderIDs: []string{"azure:///x"}}, false},
		"AWS":                    {v1alpha1.CloudProviderAuto, platform.Evidence{ProviderIDs: []string{"aws:///a/i-1"}}, false},
		"External on bare metal": {v1alpha1.CloudProviderExternal, platform.Evidence{}, false},
	} {
		if got := platform.ChooseProvider(test.setting, test.evidence); got.NodeManager != test.want {
			t.Errorf("%s: %+v, want %v", name, got, test.want)
		}
	}
}
