package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/platform"
	"github.com/windows-machine-config/wmco/internal/release"
	"github.com/windows-machine-config/wmco/payload"
)

// TestOnlyHostsOnAWSGetTheCredentialsOfECR renders what the operator's own releases have: nothing else reaches a host.
func TestOnlyHostsOnAWSGetTheCredentialsOfECR(t *testing.T) {
	const program, config = "ecr-credential-provider.exe", `C:\k\credential-provider-config.yaml`
	for _, name := range []string{"", platform.AWS, platform.Azure, platform.GCP, platform.VSphere, "None"} {
		content := release.Of("1.2.0", declared())[0].Content
		node := mustRender(t, func(in *desired.Inputs) { in.Payload, in.Cluster.Network.Platform = content, name })
		sent := slices.ContainsFunc(desired.OnPlatform(content, name).Files, func(f payload.File) bool { return f.Path == program })
		wanted := slices.ContainsFunc(node.Payload, func(f desired.PayloadFile) bool { return f.Path == program })
		written := slices.ContainsFunc(node.Files, func(f desired.File) bool { return f.Path == config })
		named := strings.Contains(node.Services[1].Command, "--image-credential-provider-config="+config+" --image-credential-provider-bin-dir="+desired.VersionFolder(node.Digest))
		if want := name == platform.AWS; sent != want || wanted != want || written != want || named != want {
			t.Errorf("on %q: sent %v, wanted %v, its configuration written %v and named %v; all must be %v", name, sent, wanted, written, named, want)
		}
	}
	without := mustRender(t, func(in *desired.Inputs) { in.Cluster.Network.Platform = platform.AWS })
	if strings.Contains(without.Services[1].Command, "credential-provider") {
		t.Errorf("the kubelet is told of a program that the payload has not: %s", without.Services[1].Command)
	}
}
