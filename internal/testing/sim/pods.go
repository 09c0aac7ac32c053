package sim

import (
	"encoding/json"
	"net/netip"
	"os"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Pod is a pod whose sandbox containerd creates.
type Pod struct {
	Namespace, Name, UID string
	// Sandbox is the ID of the sandbox.
	Sandbox string
	Address netip.Addr
}

// cachedResult is the file of libcni (cachedInfo in libcni/api.go of containernetworking/cni).
type cachedResult struct {
	Kind        string         `json:"kind"`
	ContainerID string         `json:"containerId"`
	Config      []byte         `json:"config"`
	IfName      string         `json:"ifName"`
	NetworkName string         `json:"networkName"`
	NetNS       string         `json:"netns,omitempty"`
	CNIArgs     [][2]string    `json:"cniArgs,omitempty"`
	Result      map[string]any `json:"result,omitempty"`
}

// AttachPod creates the endpoint of a pod in a network of the Host Network Service, as the network's plugin does before other plugins run
// and before there is a container. It returns the ID of the endpoint.
func (w *Windows) AttachPod(network string, p Pod) (endpoint string) {
	w.AddNetwork(p.Sandbox)
	return w.hns.Add(hns.State{Endpoints: []hns.Endpoint{
		{Network: network, Name: p.Sandbox, Address: p.Address, Namespace: p.Sandbox},
	}}).Endpoints[0].ID
}

// RunPod ends the creation of a sandbox: libcni caches the result after all plugins, with the arguments that containerd passes to plugins
// (toCNILabels in internal/cri/server/sandbox_run.go), and containerd starts the container.
func (w *Windows) RunPod(p Pod) error {
	content, err := json.Marshal(cachedResult{
		Kind: "cniCacheV1", ContainerID: p.Sandbox, Config: []byte("{}"), IfName: "eth0", NetworkName: "pods", NetNS: p.Sandbox,
		CNIArgs: [][2]string{
			{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", p.Namespace}, {"K8S_POD_NAME", p.Name}, {"K8S_POD_INFRA_CONTAINER_ID", p.Sandbox},
			{"K8S_POD_UID", p.UID},
		},
		Result: map[string]any{"cniVersion": "1.0.0", "ips": []any{map[string]any{"address": netip.PrefixFrom(p.Address, 24).String()}}},
	})
	if err == nil {
		_, err = w.Disk().WriteFile(cachedResultOf(p.Sandbox), string(content))
	}
	if err == nil { // otherwise it would have the time of this machine, also in simulated time
		err = os.Chtimes(w.Disk().Local(cachedResultOf(p.Sandbox)), time.Now(), time.Now())
	}
	w.AddContainer(p.Sandbox, "")
	return err
}

// EndPod removes the sandbox of a pod: its container, its endpoint, and then libcni's result.
func (w *Windows) EndPod(endpoint string, p Pod) error {
	w.mu.Lock()
	delete(w.containers, p.Sandbox)
	delete(w.networks, p.Sandbox)
	w.mu.Unlock()
	w.hns.Lose(endpoint)
	return w.Disk().Remove(cachedResultOf(p.Sandbox))
}

func cachedResultOf(sandbox string) string {
	return desired.CNIResults + `\pods-` + sandbox + "-eth0"
}
