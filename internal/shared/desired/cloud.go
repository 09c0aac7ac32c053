package desired

import (
	"slices"

	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/payload"
)

// ecrProgram gets credentials for Amazon's registries for the kubelet from the host's metadata service (k8s.io/cloud-provider-aws).
const ecrProgram = "ecr-credential-provider.exe"

// cloudFlags returns the flags of a kubelet in a cloud: its node waits for the cloud's controller, and a credential provider gets credentials
// for the cloud's registries.
func cloudFlags(in Inputs) (flags string) {
	if in.Cluster.CloudProvider.External {
		flags += ` --cloud-provider=external`
	}
	if hasECR(in) {
		flags += ` --image-credential-provider-config=` + credentialProviderConfig +
			` --image-credential-provider-bin-dir=` + VersionFolder(in.Payload.Digest)
	}
	return flags
}

func hasECR(in Inputs) bool {
	return has(OnPlatform(in.Payload, in.Cluster.Network.Platform), ecrProgram)
}

// cloudFiles returns the files that flags of the kubelet and of the cloud-node-manager name.
func cloudFiles(in Inputs) (files []File) {
	if runsNodeManager(in) {
		files = append(files, File{Path: nodeManagerKubeconfig, Content: renderKubeconfig(in.Cluster, NodeManagerService, NodeManagerIdentity)})
	}
	if hasECR(in) {
		files = append(files, File{Path: credentialProviderConfig, Content: ecrConfig})
	}
	return files
}

// ecrConfig makes the kubelet call the program for images of Amazon's private registries, in all AWS partitions. The program returns how long
// credentials may be cached (pkg of cmd/ecr-credential-provider); 0 applies to responses without a duration.
const ecrConfig = `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
- name: ` + ecrProgram + `
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: "0"
  matchImages:
  - "*.dkr.ecr.*.amazonaws.com"
  - "*.dkr.ecr.*.amazonaws.com.cn"
  - "*.dkr.ecr-fips.*.amazonaws.com"
  - "*.dkr.ecr.us-iso-east-1.c2s.ic.gov"
  - "*.dkr.ecr.us-isob-east-1.sc2s.sgov.gov"
`

// nodeManagerProgram is the cloud-node-manager of Azure (cmd/cloud-node-manager of sigs.k8s.io/cloud-provider-azure), by the original
// operator's name.
const nodeManagerProgram = "azure-cloud-node-manager.exe"

// HasNodeManager reports whether a payload has the cloud-node-manager.
func HasNodeManager(m payload.Manifest) bool { return has(m, nodeManagerProgram) }

// runsNodeManager reports whether nodes initialize themselves: only on Azure, if the payload has the program and kubelets wait for it.
func runsNodeManager(in Inputs) bool {
	return in.Cluster.CloudProvider.External && HasNodeManager(OnPlatform(in.Payload, in.Cluster.Network.Platform))
}

// nodeManager initializes the node with data from Azure's metadata service. It has its own certificate; the original uses WICD's kubeconfig.
// The other flags are the original's. Without a port it serves nothing, and does not query the API server for the permissions of clients.
func nodeManager(in Inputs, folder string, logs LogLimits) Service {
	const name = NodeManagerService
	log := Log{Path: logPath(name), Rotates: true}
	return Service{
		Name:        name,
		Description: ServiceDescription(name),
		DependsOn:   []string{KubeletService},
		Command: logRunner(folder, log, logs) + folder + `\` + nodeManagerProgram + ` --windows-service=true --node-name=` + markNode +
			` --wait-routes=false --kubeconfig=` + nodeManagerKubeconfig + ` --secure-port=0` + klogLevel(in, name),
		Needs: []string{NodeManagerIdentity},
		Log:   log,
	}
}

// OnPlatform returns the files of a payload for hosts on a platform: without those that only another platform needs. The digest remains that
// of the whole payload.
func OnPlatform(m payload.Manifest, name string) payload.Manifest {
	group := platform.Of(name).PayloadGroup
	m.Files = slices.DeleteFunc(slices.Clone(m.Files), func(f payload.File) bool {
		return f.Group != group && slices.Contains(platform.PayloadGroups(), f.Group)
	})
	return m
}
