package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

const openshiftOperator = "operator.openshift.io"

// ReadNetwork reads the input of the pod network's provider: from OpenShift's own objects if they exist, or else from WindowsConfig and from where
// the network's installer stores it. desired.Render checks whether Windows nodes can use it.
func ReadNetwork(ctx context.Context, r client.Reader, platform Platform, config v1alpha1.NetworkSpec) (n desired.ClusterNetwork, err error) {
	n = desired.ClusterNetwork{OpenShift: platform.OpenShift, Platform: platform.Type}
	switch desired.Provider(config, platform.OpenShift) {
	case v1alpha1.NetworkOVNHybridOverlay:
		err = readOVNKubernetes(ctx, r, config, &n)
	case v1alpha1.NetworkFlannel:
		err = readFlannel(ctx, r, config, &n)
	}
	if err != nil {
		return desired.ClusterNetwork{}, err
	}
	return n, nil
}

type clusterNetwork struct {
	kind     string
	podCIDRs []string
	// serviceCIDRs has both families.
	serviceCIDRs []string
	// hostPrefixes are the prefix lengths of nodes by pod range.
	hostPrefixes map[string]int
}

// openshiftNetwork returns OpenShift's network; nil on other clusters.
func openshiftNetwork(ctx context.Context, r client.Reader) (*clusterNetwork, error) {
	object, err := readCluster(ctx, r, openshiftConfig, "Network", "cluster")
	if object == nil || err != nil {
		return nil, err
	}
	var current struct {
		Status struct {
			Type           string `json:"networkType"`
			ClusterNetwork []struct {
				CIDR       string `json:"cidr"`
				HostPrefix int    `json:"hostPrefix"`
			} `json:"clusterNetwork"`
			ServiceNetwork []string `json:"serviceNetwork"`
		} `json:"status"`
	}
	if err := decode(object, &current); err != nil {
		return nil, err
	}
	n := &clusterNetwork{kind: current.Status.Type, serviceCIDRs: current.Status.ServiceNetwork, hostPrefixes: map[string]int{}}
	for _, entry := range current.Status.ClusterNetwork {
		for _, cidr := range splitList(entry.CIDR) {
			n.podCIDRs = append(n.podCIDRs, cidr)
			n.hostPrefixes[cidr] = entry.HostPrefix
		}
	}
	return n, nil
}

// kubeadmNetwork is kubeadm's network configuration. It is empty if kubeadm did not create the cluster.
type kubeadmNetwork struct {
	PodSubnet string `json:"podSubnet"`
	DNSDomain string `json:"dnsDomain"`
}

func readKubeadm(ctx context.Context, r client.Reader) (kubeadmNetwork, error) {
	text, err := configMapValue(ctx, r, "kube-system", "kubeadm-config", "ClusterConfiguration")
	if apierrors.IsNotFound(err) {
		return kubeadmNetwork{}, nil
	}
	if err != nil {
		return kubeadmNetwork{}, err
	}
	var kubeadm struct {
		Networking kubeadmNetwork `json:"networking"`
	}
	if err := yaml.Unmarshal([]byte(text), &kubeadm); err != nil {
		return kubeadmNetwork{}, fmt.Errorf("reading ConfigMap kube-system/kubeadm-config: %w", err)
	}
	return kubeadm.Networking, nil
}

func splitList(text string) []string {
	var all []string
	for cidr := range strings.SplitSeq(text, ",") {
		if cidr = strings.TrimSpace(cidr); cidr != "" {
			all = append(all, cidr)
		}
	}
	return all
}

func readOVNKubernetes(ctx context.Context, r client.Reader, config v1alpha1.NetworkSpec, n *desired.ClusterNetwork) (err error) {
	n.HostPrefixes = map[string]int{}
	if n.OpenShift {
		network, err := openshiftNetwork(ctx, r)
		if err != nil {
			return err
		}
		if network != nil {
			n.Type, n.PodCIDRs, n.ServiceCIDRs = network.kind, network.podCIDRs, network.serviceCIDRs
			maps.Copy(n.HostPrefixes, network.hostPrefixes)
		}
		return readHybridOverlay(ctx, r, n)
	}
	var configured v1alpha1.OVNNetwork
	if config.OVN != nil {
		configured = *config.OVN
	}
	n.VXLANPort = uint16(configured.VXLANPort)
	if n.PodCIDRs, err = parseSubnets("clusterSubnets", configured.ClusterSubnets, n); err != nil {
		return err
	}
	if n.HybridCIDRs, err = parseSubnets("hybridClusterSubnets", configured.HybridClusterSubnets, n); err != nil || n.PodCIDRs != nil {
		return err
	}
	kubeadm, err := readKubeadm(ctx, r)
	n.PodCIDRs = splitList(kubeadm.PodSubnet)
	return err
}

// parseSubnets parses ranges from WindowsConfig; nil if the field is empty.
func parseSubnets(field, text string, n *desired.ClusterNetwork) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	cidrs, hostPrefixes, err := desired.ParseSubnets(text)
	if err != nil {
		return nil, fmt.Errorf("%w: WindowsConfig cluster, spec.network.ovn.%s: %w", desired.ErrNetwork, field, err)
	}
	maps.Copy(n.HostPrefixes, hostPrefixes)
	return cidrs, nil
}

// ovnKubernetesConfig is the administrator's configuration of OVN-Kubernetes. Numbers are wider than their valid range, so that an invalid one does
// not prevent decoding the rest.
type ovnKubernetesConfig struct {
	V4InternalSubnet string `json:"v4InternalSubnet"`
	IPv4             struct {
		JoinSubnet    string `json:"internalJoinSubnet"`
		TransitSubnet string `json:"internalTransitSwitchSubnet"`
	} `json:"ipv4"`
	Gateway struct {
		IPv4 struct {
			MasqueradeSubnet string `json:"internalMasqueradeSubnet"`
		} `json:"ipv4"`
	} `json:"gatewayConfig"`
	Hybrid *struct {
		Networks []struct {
			CIDR string `json:"cidr"`
		} `json:"hybridClusterNetwork"`
		Port int64 `json:"hybridOverlayVXLANPort"`
	} `json:"hybridOverlayConfig"`
}

// readHybridOverlay reads OpenShift's configuration for OVN-Kubernetes. It is not part of any status.
func readHybridOverlay(ctx context.Context, r client.Reader, n *desired.ClusterNetwork) error {
	object, err := readCluster(ctx, r, openshiftOperator, "Network", "cluster")
	if object == nil || err != nil {
		return err
	}
	var current struct {
		Spec struct {
			DefaultNetwork struct {
				OVN ovnKubernetesConfig `json:"ovnKubernetesConfig"`
			} `json:"defaultNetwork"`
		} `json:"spec"`
	}
	if err := decode(object, &current); err != nil {
		return err
	}
	ovn := current.Spec.DefaultNetwork.OVN
	n.Internal = internalRanges(ovn)
	if ovn.Hybrid == nil {
		return nil
	}
	var faults []string
	for i, network := range ovn.Hybrid.Networks {
		if i > 0 {
			n.HybridUnused = append(n.HybridUnused, network.CIDR)
			continue
		}
		// OVN-Kubernetes gets this text as a flag's value. It does not get hostPrefix.
		cidrs, hostPrefixes, err := desired.ParseSubnets(network.CIDR)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s.hybridClusterNetwork[0].cidr: %v", hybridOverlayField, err))
			continue
		}
		n.HybridCIDRs = cidrs
		maps.Copy(n.HostPrefixes, hostPrefixes)
	}
	if port := ovn.Hybrid.Port; port < 0 || port > math.MaxUint16 {
		faults = append(faults, fmt.Sprintf("%s.hybridOverlayVXLANPort is %d; it must be from 1 to %d", hybridOverlayField, port, math.MaxUint16))
	} else {
		n.VXLANPort = uint16(port)
	}
	n.HybridFault = strings.Join(faults, "; ")
	hybrid, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "defaultNetwork", "ovnKubernetesConfig", "hybridOverlayConfig")
	text, err := json.Marshal(hybrid) // with its unknown fields
	n.HybridOverlay = string(text)
	return err
}

const hybridOverlayField = "Network.operator.openshift.io cluster, spec.defaultNetwork.ovnKubernetesConfig.hybridOverlayConfig"

// internalRanges returns the ranges that OVN-Kubernetes reserves for itself: the configured ones, or the defaults. Clusters have one of two default
// masquerade ranges; both are link-local and therefore never overlap with a pod range.
func internalRanges(ovn ovnKubernetesConfig) []desired.InternalRange {
	return []desired.InternalRange{
		{Name: "join subnet", Field: "ipv4.internalJoinSubnet", CIDR: cmp.Or(ovn.IPv4.JoinSubnet, ovn.V4InternalSubnet, "100.64.0.0/16")},
		{Name: "transit switch subnet", Field: "ipv4.internalTransitSwitchSubnet", CIDR: cmp.Or(ovn.IPv4.TransitSubnet, "100.88.0.0/16")},
		{Name: "masquerade subnet", Field: "gatewayConfig.ipv4.internalMasqueradeSubnet", CIDR: cmp.Or(ovn.Gateway.IPv4.MasqueradeSubnet, "169.254.0.0/16")},
	}
}

func readFlannel(ctx context.Context, r client.Reader, config v1alpha1.NetworkSpec, n *desired.ClusterNetwork) error {
	name := desired.FlannelConfig(config)
	var cm corev1.ConfigMap
	err := r.Get(ctx, name, &cm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	flannel, err := desired.ParseFlannel(cm.Data[desired.FlannelConfigKey])
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	n.Flannel = &flannel
	return nil
}
