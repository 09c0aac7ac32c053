package daemontest

import (
	"crypto/ed25519"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Token is the bootstrap token of NewRequest.
const Token = "the-bootstrap-token"

// NewRequest returns a request for a node with the programs of the payload.
func NewRequest(c *Payload) wicdapi.JoinRequest {
	folder := desired.VersionFolder(c.Digest())
	return wicdapi.JoinRequest{
		Cluster: "11111111-2222-3333-4444-555555555555", Namespace: namespace, Local: desired.Local{Node: "win-1", NodeIP: "192.0.2.10"}, MayReboot: true,
		// No client can be created with this CA, so that nothing tries to connect.
		Bootstrap: wicdapi.Bootstrap{Server: "https://api.example:6443", CA: "none", Token: Token},
		Desired: desired.Node{
			Version: "1.0.0-" + c.Digest()[:7], Digest: c.Digest(), Payload: c.Files,
			Features:    []string{"Containers"},
			Directories: []string{desired.Logs + `\kubelet`, desired.KubeletCertificates},
			Files: []desired.File{
				{Path: `C:\k\kubelet.conf`, Content: "{}"},
				{Path: `C:\k\containerd\containerd_conf.toml`, Content: "version = 3"},
			},
			Services: []desired.Service{
				containerd(folder), kubelet(folder),
				Service(api.WICDService, folder+`\windows-instance-config-daemon.exe run --windows-service`),
			},
			SigningKey: desired.PublicKey(SigningKey(1)),
			CNI:        &desired.CNI{Path: CNIConfig, Content: `{"name":"n","type":"t","cidr":"{{.PodCIDR}}"}`},
		},
	}
}

func containerd(folder string) desired.Service {
	s := Service("containerd", folder+`\containerd\containerd.exe --config C:\k\containerd\containerd_conf.toml`)
	s.Ready = "npipe://./pipe/containerd-containerd"
	s.Log.Path = `C:\var\log\containerd\containerd.log`
	return s
}

func kubelet(folder string) desired.Service {
	s := Service("kubelet", folder+`\kube-log-runner.exe -log-file=C:\var\log\kubelet\kubelet.log `+folder+
		`\kubelet.exe --config=C:\k\kubelet.conf --bootstrap-kubeconfig=`+desired.BootstrapKubeconfig+
		` --kubeconfig=`+desired.KubeletKubeconfig+` --cert-dir=`+desired.KubeletCertificates+` --hostname-override=${NODE_NAME} --node-ip=${NODE_IP}`, "containerd")
	s.Ready = "http://127.0.0.1:10248/healthz"
	s.Log.Path = `C:\var\log\kubelet\kubelet.log`
	return s
}

// Service returns the declaration of one of the operator's services.
func Service(name, command string, dependsOn ...string) desired.Service {
	return desired.Service{Name: name, Description: desired.ServiceDescription(name), Command: command, DependsOn: dependsOn}
}

// SigningKey returns the n-th signing key; the operator's is the first.
func SigningKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}
