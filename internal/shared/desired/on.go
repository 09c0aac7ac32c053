package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
)

// Local is what differs from host to host.
type Local struct {
	// Node is the node's name, NodeIP its address.
	Node   string `json:"node"`
	NodeIP string `json:"nodeIP"`
	// Adapter is the name of the interface that has NodeIP, which carries the pod network.
	Adapter string `json:"adapter,omitempty"`
	// Taints are added to the node when it registers, in addition to taint os.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// SandboxImage is the image that the host keeps using until it has pulled the declared one; empty if it has that one, or none. WICD fills
	// it in.
	SandboxImage string `json:"sandboxImage,omitempty"`
	// Kubelet is what the kubelet keeps using while it does not have the declared resources; nil if it has them. WICD fills it in.
	Kubelet *HeldKubelet `json:"kubelet,omitempty"`
	// Build is the build of Windows; 0 until a join of this version has filled it in.
	Build int `json:"build,omitempty"`
}

// Placeholders in a declaration for values of the host. The one for taints is replaced by a JSON array.
const (
	markNode    = "${NODE_NAME}"
	markNodeIP  = "${NODE_IP}"
	markAdapter = "${NODE_ADAPTER}"
	markTaints  = `"${NODE_TAINTS}"`

	markSandboxImage = "${SANDBOX_IMAGE}"

	// markForwardsVIP is the placeholder for whether kube-proxy answers health checks at the addresses of Services. The quotes are part of it.
	markForwardsVIP = `"${FORWARDS_VIP}"`
)

// windows2019 is the build of Windows Server 2019.
const windows2019 = 17763

// forwardsVIP reports whether kube-proxy can answer health checks at the addresses of Services: Windows Server 2019 rejects their load
// balancers for ports of kube-proxy (0x803b0013, https://github.com/kubernetes/community/pull/8883).
func (l Local) forwardsVIP() bool { return l.Build > windows2019 }

// On returns the declaration for one host, without placeholders: names and secrets are filled in, and services have the environment that
// they read.
func (n Node) On(l Local, s Secrets) (Node, error) {
	if n.SecretsVersion != s.Version {
		return Node{}, fmt.Errorf("declaration needs version %q of the secrets, got version %q", n.SecretsVersion, s.Version)
	}
	taints, err := json.Marshal(append([]corev1.Taint{{
		Key: api.TaintKey, Value: cmp.Or(n.TaintValue, api.TaintValue), Effect: corev1.TaintEffectNoSchedule,
	}}, l.Taints...))
	if err != nil {
		return Node{}, err
	}
	n.SandboxImage = cmp.Or(l.SandboxImage, n.SandboxImage)
	contents := strings.NewReplacer(markTaints, string(taints), markSandboxImage, n.SandboxImage)
	values := strings.NewReplacer(markNode, l.Node, markNodeIP, l.NodeIP, markAdapter, l.Adapter)
	plain := len(n.Files)
	n.Files = slices.Concat(n.Files, s.Files)
	for i := range n.Files {
		n.Files[i].Secret = i >= plain
		if l.Kubelet != nil && n.Files[i].Path == kubeletConfig {
			n.Files[i].Content = l.Kubelet.with(n.Files[i].Content)
		}
		n.Files[i].Content = contents.Replace(n.Files[i].Content)
	}
	all := map[string]string{}
	for _, part := range []map[string]string{n.Environment, s.Environment} {
		for name, value := range part {
			all[name] = values.Replace(value)
		}
	}
	// Every user of a host can read the environment of the machine, so secrets go to the services only.
	n.Environment = subset(all, slices.Collect(maps.Keys(n.Environment)))
	n.fillProxy(l)
	n.Services = slices.Clone(n.Services)
	for i := range n.Services {
		n.Services[i].Command = values.Replace(n.Services[i].Command)
		n.Services[i].Environment = n.Services[i].environment(all, values)
		n.Services[i].Reads = nil
	}
	return n, nil
}

// fillProxy fills in kube-proxy's configuration.
func (n *Node) fillProxy(l Local) {
	forwards := strings.NewReplacer(markForwardsVIP, strconv.FormatBool(l.forwardsVIP()))
	if n.Network != nil {
		network := *n.Network
		network.Files = slices.Clone(network.Files)
		for i := range network.Files {
			network.Files[i].Content = forwards.Replace(network.Files[i].Content)
		}
		n.Network = &network
	}
	if n.UserNetwork != nil && n.UserNetwork.Proxy != nil {
		user, proxy := *n.UserNetwork, *n.UserNetwork.Proxy
		proxy.Content = forwards.Replace(proxy.Content)
		user.Proxy = &proxy
		n.UserNetwork = &user
	}
}

// environment returns the service's own variables, filled in, and those that it reads.
func (s Service) environment(all map[string]string, values *strings.Replacer) map[string]string {
	own := subset(all, s.Reads)
	if own == nil && len(s.Environment) > 0 {
		own = map[string]string{}
	}
	for name, value := range s.Environment {
		own[name] = values.Replace(value)
	}
	return own
}

func subset(all map[string]string, names []string) map[string]string {
	some := map[string]string{}
	for _, name := range names {
		if value, found := all[name]; found {
			some[name] = value
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some
}
