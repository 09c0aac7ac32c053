package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestCloudNodesHaveMetadataRoute(t *testing.T) {
	const service = "169.254.169.254/32"
	for platform, want := range map[string][]desired.Route{
		"AWS": {{To: service, Gateway: true}}, "Azure": {{To: service, Gateway: true}}, "GCP": {{To: service}},
		"": nil, "BareMetal": nil, "VSphere": nil, "Nutanix": nil, "None": nil,
	} {
		got := mustRender(t, func(in *desired.Inputs) { in.Cluster.Network.Platform = platform }).Routes
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", platform, diff)
		}
	}
}
