package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

func TestPlatformIsReadFromOpenShift(t *testing.T) {
	infrastructure := func(text string) client.Object {
		return openshift("config.openshift.io", "Infrastructure", "cluster", text)
	}
	tests := map[string]struct {
		objects []client.Object
		want    Platform
	}{
		"plain Kubernetes":           {nil, Platform{}},
		"Azure":                      {[]client.Object{infrastructure("status: {platformStatus: {type: Azure}}")}, Platform{OpenShift: true, Type: "Azure"}},
		"new field takes precedence": {[]client.Object{infrastructure("status: {platform: AWS, platformStatus: {type: Nutanix}}")}, Platform{OpenShift: true, Type: "Nutanix"}},
		"old field only":             {[]client.Object{infrastructure("status: {platform: AWS, platformStatus: null}")}, Platform{OpenShift: true, Type: "AWS"}},
		"external platform with a cloud controller manager": {
			[]client.Object{infrastructure("status: {platformStatus: {type: External, external: {cloudControllerManager: {state: External}}}}")},
			Platform{OpenShift: true, Type: "External", ControllerManager: "External"},
		},
		"OpenShift without a platform": {[]client.Object{infrastructure("status: {}")}, Platform{OpenShift: true, Type: ""}},
	}
	for name, test := range tests {
		if got, err := ReadPlatform(t.Context(), reader(test.objects...)); err != nil || got != test.want {
			t.Errorf("%s: got %+v (%v), want %+v", name, got, err, test.want)
		}
	}
	if _, err := ReadPlatform(t.Context(), reader(infrastructure("status: {platformStatus: {type: 7}}"))); err == nil || !strings.Contains(err.Error(), "status.platformStatus.type") {
		t.Errorf("error %v does not name the field", err)
	}
}

func TestCloudProviderIsDetected(t *testing.T) {
	node := func(name, system, providerID string) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	}
	aws := openshift("config.openshift.io", "Infrastructure", "cluster", "status: {platformStatus: {type: AWS}}")
	tests := map[string]struct {
		setting  v1alpha1.CloudProvider
		objects  []client.Object
		external bool
		platform string
	}{
		"Linux nodes of a cloud":                   {v1alpha1.CloudProviderAuto, []client.Object{node("a", "linux", "gce://p/z/a"), node("b", "linux", "")}, true, "GCP"},
		"Windows nodes only":                       {v1alpha1.CloudProviderAuto, []client.Object{node("a", "windows", "gce://p/z/a")}, false, ""},
		"OpenShift":                                {"", []client.Object{aws}, true, ""},
		"OpenShift with setting None":              {v1alpha1.CloudProviderNone, []client.Object{aws}, false, ""},
		"Linux nodes of a cloud with setting None": {v1alpha1.CloudProviderNone, []client.Object{node("a", "linux", "aws:///z/i-1")}, false, ""},
		"no cloud with setting External":           {v1alpha1.CloudProviderExternal, []client.Object{node("a", "linux", "")}, true, ""},
	}
	for name, test := range tests {
		r := reader(test.objects...)
		current, err := ReadPlatform(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadCloudProvider(t.Context(), r, current, test.setting, false)
		if err != nil || got.External != test.external || got.Platform != test.platform {
			t.Errorf("%s: got %+v (%v)", name, got, err)
		}
	}
}
