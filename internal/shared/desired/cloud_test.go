package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/payload"
)

// TestOnlyAWSHostsGetECRCredentials uses the payload of releases: hosts elsewhere get nothing for ECR.
func TestOnlyAWSHostsGetECRCredentials(t *testing.T) {
	const program, config = "ecr-credential-provider.exe", `C:\k\credential-provider-config.yaml`
	for _, name := range []string{"", platform.AWS, platform.Azure, platform.GCP, platform.VSphere, "None"} {
		content := kubeversions.Of("1.2.0", declared())[0].Content
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
		t.Errorf("the kubelet's command names a program that the payload lacks: %s", without.Services[1].Command)
	}
}

// TestOnlyAzureNodesRunCloudNodeManager uses the payload of releases.
func TestOnlyAzureNodesRunCloudNodeManager(t *testing.T) {
	const program, kubeconfig = "azure-cloud-node-manager.exe", `C:\k\cloud-node-manager-kubeconfig`
	with := kubeversions.Of("1.2.0", declared())[0].Content
	without := payload.New(slices.DeleteFunc(slices.Clone(with.Files), func(f payload.File) bool { return f.Path == program }), payload.File{})
	for _, test := range []struct {
		platform string
		external bool
		content  payload.Manifest
		sent     bool
		runs     bool
	}{
		{platform.Azure, true, with, true, true},
		{platform.Azure, false, with, true, false},
		{platform.Azure, true, without, false, false},
		{platform.AWS, true, with, false, false},
		{"", true, with, false, false},
	} {
		node := mustRender(t, func(in *desired.Inputs) {
			in.Payload, in.Cluster.Network.Platform, in.Cluster.CloudProvider.External = test.content, test.platform, test.external
		})
		sent := slices.ContainsFunc(node.Payload, func(f desired.PayloadFile) bool { return f.Path == program })
		written := slices.ContainsFunc(node.Files, func(f desired.File) bool { return f.Path == kubeconfig })
		runs := slices.Contains(names(node.Services), desired.NodeManagerService)
		if sent != test.sent || runs != test.runs || written != test.runs {
			t.Errorf("on %q, external %v: sent %v (want %v), runs %v (want %v), its kubeconfig written %v", test.platform, test.external, sent, test.sent, runs, test.runs, written)
		}
	}
}

// TestCloudNodeManagerHasOwnIdentity: WICD's identity has no permissions for it, and the kubelet's cannot remove
// a taint.
func TestCloudNodeManagerHasOwnIdentity(t *testing.T) {
	node := mustRender(t, func(in *desired.Inputs) {
		in.Payload, in.Cluster.Network.Platform, in.Cluster.CloudProvider.External = declared(), platform.Azure, true
	})
	node, err := node.On(desired.Local{Node: "win-1", NodeIP: "10.0.0.4"}, desired.Secrets{})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.CheckBounds(); err != nil {
		t.Error(err)
	}
	i := slices.IndexFunc(node.Services, func(s desired.Service) bool { return s.Name == desired.NodeManagerService })
	s := node.Services[i]
	want := desired.VersionFolder(node.Digest) + `\azure-cloud-node-manager.exe --windows-service=true --node-name=win-1 --wait-routes=false ` +
		`--kubeconfig=C:\k\cloud-node-manager-kubeconfig --secure-port=0 --v=2`
	if !strings.HasSuffix(s.Command, want) || !slices.Equal(s.DependsOn, []string{"kubelet"}) || !slices.Equal(s.Needs, []string{desired.NodeManagerIdentity}) {
		t.Errorf("the service is %+v, want a command that ends with %s", s, want)
	}
	for _, f := range node.Files {
		names := strings.Contains(f.Content, "cloud-node-manager-client-current.pem")
		if ok := f.Path == `C:\k\cloud-node-manager-kubeconfig`; names != ok || ok && strings.Contains(f.Content, "wicd-client") {
			t.Errorf("%s names its certificate: %v, or WICD's", f.Path, names)
		}
	}
}

// TestMissingCloudNodeManagerIsReportedOnAzure: the effect depends on whether nodes wait for it.
func TestMissingCloudNodeManagerIsReportedOnAzure(t *testing.T) {
	with := declared()
	without := payload.New(slices.DeleteFunc(slices.Clone(with.Files), func(f payload.File) bool { return f.Group == payload.Azure }), payload.File{})
	for name, test := range map[string]struct {
		provider platform.Provider
		content  payload.Manifest
		message  string
	}{
		"nodes wait":           {platform.Provider{External: true, NodeManager: true}, without, "get no pods"},
		"nodes take pods":      {platform.Provider{NodeManager: true}, without, "they run pods"},
		"on another cloud":     {platform.Provider{External: true}, without, ""},
		"the payload has it":   {platform.Provider{External: true, NodeManager: true}, with, ""},
		"no external provider": {platform.Provider{}, without, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputs()
			in.Cluster.CloudProvider, in.Payload = test.provider, test.content
			rendered, err := desired.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			if test.message == "" && len(rendered.Missing) > 0 {
				t.Errorf("missing: %v, want none", rendered.Missing)
			}
			if test.message != "" && (len(rendered.Missing) != 1 || rendered.Missing[0].Name != desired.NodeManagerService || !strings.Contains(rendered.Missing[0].Effect, test.message)) {
				t.Errorf("missing: %v, want %s because %q", rendered.Missing, desired.NodeManagerService, test.message)
			}
		})
	}
}
