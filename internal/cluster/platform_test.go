package cluster

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestThePlatformIsWhatOpenShiftSays(t *testing.T) {
	says := func(text string) client.Object {
		return openshift("config.openshift.io", "Infrastructure", "cluster", text)
	}
	tests := map[string]struct {
		objects []client.Object
		want    Platform
	}{
		"plain Kubernetes":        {nil, Platform{}},
		"Azure":                   {[]client.Object{says("status: {platformStatus: {type: Azure}}")}, Platform{true, "Azure"}},
		"the new field wins":      {[]client.Object{says("status: {platform: AWS, platformStatus: {type: Nutanix}}")}, Platform{true, "Nutanix"}},
		"the old field alone":     {[]client.Object{says("status: {platform: AWS, platformStatus: null}")}, Platform{true, "AWS"}},
		"OpenShift that says not": {[]client.Object{says("status: {}")}, Platform{true, ""}},
	}
	for name, test := range tests {
		if got, err := ReadPlatform(t.Context(), reader(test.objects...)); err != nil || got != test.want {
			t.Errorf("%s: got %+v (%v), want %+v", name, got, err, test.want)
		}
	}
	if _, err := ReadPlatform(t.Context(), reader(says("status: {platformStatus: {type: 7}}"))); err == nil || !strings.Contains(err.Error(), "status.platformStatus.type") {
		t.Errorf("error %v does not name the field", err)
	}
}
