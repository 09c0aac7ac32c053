//go:build linux

package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/credentialprovider/plugin"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/payload"
)

// TestKubeletAcceptsCredentialProviderConfiguration loads the configuration of nodes on AWS with the kubelet's own code. The
// provider is an empty file, because the kubelet looks it up and does not start it.
func TestKubeletAcceptsCredentialProviderConfiguration(t *testing.T) {
	const program = "ecr-credential-provider.exe"
	in := desired.Inputs{
		Payload: payload.New([]payload.File{{Path: program, Group: payload.AWS}}, payload.File{}),
		Cluster: desired.Cluster{Server: "https://api.example:6443", ServiceCIDRs: []string{"10.96.0.0/16"}, Network: desired.ClusterNetwork{Platform: platform.AWS}},
		Config: v1alpha1.WindowsConfigSpec{Network: v1alpha1.NetworkSpec{
			Provider: v1alpha1.NetworkCustom, Custom: &v1alpha1.CustomNetwork{CNIConfig: `{"name": "l2", "type": "win-bridge"}`},
		}},
	}
	rendered, err := desired.Render(in)
	must(t, err)
	dir := t.TempDir()
	config := ""
	for _, f := range rendered.Node.Files {
		if strings.HasSuffix(f.Path, "credential-provider-config.yaml") {
			config = filepath.Join(dir, "config.yaml")
			must(t, os.WriteFile(config, []byte(f.Content), 0o600))
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, program), nil, 0o700))
	if err := plugin.RegisterCredentialProviderPlugins(config, dir, nil, nil); err != nil {
		t.Error(err)
	}
}
