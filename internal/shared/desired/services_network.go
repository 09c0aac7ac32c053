package desired

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

// Names that the original operator and OVN-Kubernetes use on the host (reference: pkg/services/services.go of the original,
// go-controller/hybrid-overlay/pkg/types of OVN-Kubernetes).
const (
	overlayNetwork = "OVNKubernetesHybridOverlayNetwork"
	overlayBase    = "BaseOVNKubernetesHybridOverlayNetwork"
	hostEndpoint   = "VIPEndpoint"

	overlayProgram = "hybrid-overlay-node.exe"
	proxyProgram   = "kube-proxy.exe"
	proxyConfig    = `C:\k\kube-proxy.conf`
	clusterCA      = `C:\k\bootstrap-ca.crt`
	overlayStatus  = `C:\k\hybrid-overlay.status`
)

// Network is a network of Windows' Host Network Service (HNS) that a managed service creates for pods. WICD waits for it, writes the files
// that depend on it, and monitors what it contains.
type Network struct {
	// Name of the network, and of the service that creates it.
	Name   string `json:"name"`
	MadeBy string `json:"madeBy"`
	// Base is a network that the service creates first, so that the host keeps its virtual switch; empty if there is none.
	Base string `json:"base,omitempty"`
	// Once means that the service creates the network when it starts, and not again while it runs.
	Once bool `json:"once,omitempty"`
	// Endpoint is the name of the host's own endpoint in the network. kube-proxy reaches endpoints of other hosts from its address.
	Endpoint string `json:"endpoint"`
	// Proxy is the service that creates load balancers for Services. It is restarted when Windows has lost them.
	Proxy string `json:"proxy"`
	// Files have fields of NetworkValues, such as {{.PodCIDR}}. They are written when the network exists, with the configuration of the network plugin first.
	Files []File `json:"files"`
	// ServiceCIDR is the first range of Services, MoreServiceCIDRs are the others.
	ServiceCIDR      string   `json:"serviceCIDR"`
	MoreServiceCIDRs []string `json:"moreServiceCIDRs,omitempty"`
	// StatusFile is where the service reports why its network does not work (package overlaystatus); empty if the service does not report it.
	StatusFile string `json:"statusFile,omitempty"`
	// Repair determines whether WICD restores what Windows has lost. Empty means Full.
	Repair v1alpha1.NetworkRepair `json:"repair,omitempty"`
}

// Repairs reports whether WICD restores what Windows has lost.
func (n Network) Repairs() bool { return n.Repair == "" || n.Repair == v1alpha1.RepairFull }

// Names returns the names of all networks that the service creates.
func (n Network) Names() []string {
	if n.Base == "" {
		return []string{n.Name}
	}
	return []string{n.Name, n.Base}
}

// ServiceRanges returns the ranges of Services, without invalid ones.
func (n Network) ServiceRanges() (ranges []netip.Prefix) {
	for _, text := range append([]string{n.ServiceCIDR}, n.MoreServiceCIDRs...) {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, prefix)
		}
	}
	return ranges
}

// firstAndMore splits a list into its first element and the others.
func firstAndMore(list []string) (first string, more []string) {
	switch len(list) {
	case 0:
		return "", nil
	case 1:
		return list[0], nil
	}
	return list[0], list[1:]
}

// networkServices returns the services of the provider: one that creates the network, and one for the cluster's Services.
func networkServices(in Inputs, folder string, logs LogLimits) []Service {
	var maker Service
	switch in.Config.Network.Provider {
	case v1alpha1.NetworkOVNHybridOverlay:
		maker = overlayNode(in, folder)
	case v1alpha1.NetworkFlannel:
		maker = flanneld(in, folder)
	default:
		return customServices(in, folder, logs)
	}
	return []Service{maker, kubeProxy(in, folder, logs, maker.Name)}
}

// networkFiles returns the files that those services need.
func networkFiles(in Inputs) []File {
	switch in.Config.Network.Provider {
	case v1alpha1.NetworkOVNHybridOverlay:
		return []File{{Path: clusterCA, Content: in.Cluster.CA}}
	case v1alpha1.NetworkFlannel:
		return []File{{Path: flannelNetConf, Content: in.Cluster.Network.Flannel.NetConf}}
	}
	return nil
}

// network returns the network that the provider creates; nil if the user's own plugins create one.
func network(in Inputs) *Network {
	n := &Network{Endpoint: hostEndpoint, Proxy: KubeProxyService, Repair: in.Config.Network.Repair}
	services := in.Cluster.ServiceCIDRs
	n.ServiceCIDR, n.MoreServiceCIDRs = firstAndMore(services)
	inside := services
	switch in.Config.Network.Provider {
	case v1alpha1.NetworkOVNHybridOverlay:
		n.Name, n.Base, n.MadeBy, n.StatusFile = overlayNetwork, overlayBase, OverlayService, overlayStatus
	case v1alpha1.NetworkFlannel:
		flannel := *in.Cluster.Network.Flannel
		n.Name, n.MadeBy, n.Once = flannelNetwork(flannel), FlannelService, true
		pods, _ := netip.ParsePrefix(flannel.Network) // checkFlannelRange has checked it
		inside = append([]string{pods.Masked().String()}, services...)
	default:
		return nil
	}
	n.Files = []File{overlayCNI(inside, services, PoliciesOf(in.Config.Network)), {Path: proxyConfig, Content: renderProxyConfig(in)}}
	return n
}

// overlayNode creates the networks of OVN-Kubernetes' hybrid overlay. It authenticates as the node at first, then with its own certificate.
func overlayNode(in Inputs, folder string) Service {
	const name = OverlayService
	log := Log{Path: Logs + `\hybrid-overlay\hybrid-overlay.log`}
	s := Service{
		Name:        name,
		Description: ServiceDescription(name),
		DependsOn:   []string{KubeletService},
		Command: folder + `\` + overlayProgram + ` --node ` + markNode + ` --bootstrap-kubeconfig=` + KubeletKubeconfig +
			` --cert-dir=` + CNIFolder + ` --cert-duration=24h --windows-service --logfile ` + log.Path +
			` --k8s-apiserver=` + in.Cluster.Server + ` --k8s-cacert ` + clusterCA +
			` --status-file ` + overlayStatus + ` --interface "` + markAdapter + `"`,
		Needs: []string{KubeletKubeconfig},
		Log:   log,
	}
	s.Command += level(in, name, "", " --loglevel 5", " --loglevel 5")
	if port := in.Cluster.Network.VXLANPort; port != 0 {
		s.Command += fmt.Sprintf(" --hybrid-overlay-vxlan-port %d", port)
	}
	// Subnets that other nodes announce are accepted only within these ranges. Windows nodes keep subnets whose length may differ from what
	// OVN-Kubernetes assigns now, so no length is passed for them.
	if ranges := subnets(in.Cluster.Network.PodCIDRs, in.Cluster.Network.HostPrefixes); ranges != "" {
		s.Command += " --cluster-subnets " + ranges
	}
	if ranges := subnets(in.Cluster.Network.HybridCIDRs, nil); ranges != "" && !isUnapplied(in.Cluster.Network) {
		s.Command += " --hybrid-overlay-cluster-subnets " + ranges
	}
	return s
}

// subnets returns the IPv4 ranges in the syntax of OVN-Kubernetes' flags, with the length of node prefixes if known.
func subnets(cidrs []string, hostPrefixes map[string]int) string {
	var list []string
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil || !prefix.Addr().Is4() {
			continue // CheckNetwork requires one of IPv4
		}
		item := prefix.Masked().String()
		if length := hostPrefixes[cidr]; length > prefix.Bits() && length <= prefix.Addr().BitLen() {
			item += fmt.Sprintf("/%d", length)
		}
		list = append(list, item)
	}
	return strings.Join(list, ",")
}

// kubeProxy creates load balancers for Services. Its configuration is written when the network exists.
func kubeProxy(in Inputs, folder string, logs LogLimits, after string) Service {
	const name = KubeProxyService
	log := Log{Path: logPath(name), Rotates: true}
	return Service{
		Name:        name,
		Description: ServiceDescription(name),
		DependsOn:   []string{after},
		Command:     logRunner(folder, log, logs) + folder + `\` + proxyProgram + ` --config=` + proxyConfig + ` --windows-service` + klogLevel(in, name),
		Needs:       []string{proxyConfig, WICDIdentity},
		Log:         log,
	}
}

// overlayCNI returns the configuration of win-overlay, as in the original: packets from pods to ranges inside the cluster keep their source
// address, others get the host's. Only Services have a route of the endpoint: the routes of the network (RemoteSubnetRoute) lead to pods of
// other hosts, and a route for all pods would also capture packets to pods of this host. Fields are those of the HCN schema
// (hcn/hcnpolicy.go of hcsshim): the original's exceptionList is of version 1. The last address of the range is the host's.
//
// Where policies are enforced, a plugin of WICD follows. The list has the name and version of the single configuration, so that libcni finds what it
// stored for existing pods.
func overlayCNI(inside, services []string, p *Policies) File {
	policy := func(settings object) object {
		return object{"name": "EndpointPolicy", "value": settings}
	}
	policies := []object{policy(object{"Type": "OutBoundNAT", "Settings": object{"Exceptions": inside}})}
	for _, prefix := range services {
		policies = append(policies, policy(object{"Type": "SDNRoute", "Settings": object{"DestinationPrefix": prefix, "NeedEncap": true}}))
	}
	policies = append(policies, policy(object{"Type": "ProviderAddress", "Settings": object{"ProviderAddress": "{{.ManagementIP}}"}}))
	overlay := object{
		"type": "win-overlay", "apiVersion": 2,
		"capabilities": object{"portMappings": true, "dns": true},
		"ipam":         object{"type": "host-local", "subnet": "{{.PodCIDR}}", "rangeEnd": "{{.LastPodIP}}"},
		"policies":     policies,
	}
	file, conf := File{Path: cniConfig}, overlay
	if p.Enforces() {
		file, conf = File{Path: cniList}, object{"plugins": []object{overlay, {"type": policyPlugin}}, "loadOnlyInlinedPlugins": true}
	}
	conf["cniVersion"], conf["name"] = "0.2.0", "{{.Network}}"
	file.Content = pretty(conf)
	return file
}

// policyPlugin is the network plugin that lets a pod start when WICD has applied its policies (cmd/wicd-cni).
const policyPlugin = "wicd-cni"

// renderProxyConfig returns kube-proxy's configuration as JSON, which is valid YAML. The feature gates WinDSR and WinOverlay, which the
// original sets, are always on by now and will be removed from Kubernetes.
func renderProxyConfig(in Inputs) string {
	return pretty(object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clientConnection": object{"kubeconfig": wicdKubeconfig},
		"hostnameOverride": "{{.Node}}",
		"mode":             "kernelspace",
		"clusterCIDR":      "{{.PodCIDR}}",
		"winkernel":        winkernel(in, object{"networkName": "{{.Network}}", "enableDSR": true, "sourceVip": "{{.SourceVIP}}"}),
	})
}

// winkernel adds what load balancers of the platform need to kube-proxy's settings for Windows.
func winkernel(in Inputs, settings object) object {
	if platform.Of(in.Cluster.Network.Platform).ForwardsVIP {
		settings["forwardHealthCheckVip"] = strings.Trim(markForwardsVIP, `"`)
		if settings["sourceVip"] != nil { // an overlay's endpoint of the host has our name; kube-proxy's default is the name on GKE
			settings["rootHnsEndpointName"] = hostEndpoint
		}
	}
	return settings
}

type object = map[string]any

func pretty(o object) string {
	b, _ := json.MarshalIndent(o, "", "  ") // texts and numbers only: never fails
	return string(b) + "\n"
}

// NetworkValues is what the host knows about its network once it exists, for the fields of Network.Files.
type NetworkValues struct {
	// Node is the node's name, Network the network's, PodCIDR its range.
	Node, Network, PodCIDR string
	// LastPodIP is the last address for pods. SourceVIP is the address of the host's own endpoint.
	LastPodIP, SourceVIP string
	// ManagementIP is the host's address on the adapter of the network.
	ManagementIP string
}

// Fill inserts these values in a file of the network, which must be JSON.
func (v NetworkValues) Fill(f File) (string, error) {
	text, err := insert(f.Content, map[string]string{
		"{{.Node}}": v.Node, "{{.Network}}": v.Network, podCIDRField: v.PodCIDR,
		"{{.LastPodIP}}": v.LastPodIP, "{{.SourceVIP}}": v.SourceVIP, "{{.ManagementIP}}": v.ManagementIP,
	})
	if err != nil {
		return "", fmt.Errorf("filling in %s: %w", f.Path, err)
	}
	return text, nil
}
