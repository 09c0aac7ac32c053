//go:build linux

package openshift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NetworkSpec is the part of Network.operator.openshift.io from which the network operator renders the configuration of OVN-Kubernetes.
type NetworkSpec struct {
	ClusterNetwork []struct {
		CIDR       string `json:"cidr"`
		HostPrefix int    `json:"hostPrefix"`
	} `json:"clusterNetwork"`
	ServiceNetwork []string `json:"serviceNetwork"`
	DefaultNetwork struct {
		OVN struct {
			IPv4 struct {
				Join    string `json:"internalJoinSubnet"`
				Transit string `json:"internalTransitSwitchSubnet"`
			} `json:"ipv4"`
			Gateway struct {
				IPv4 struct {
					Masquerade string `json:"internalMasqueradeSubnet"`
				} `json:"ipv4"`
			} `json:"gatewayConfig"`
			Hybrid *HybridOverlay `json:"hybridOverlayConfig"`
		} `json:"ovnKubernetesConfig"`
	} `json:"defaultNetwork"`
}

// HybridOverlay is field hybridOverlayConfig.
type HybridOverlay struct {
	Networks []struct {
		CIDR string `json:"cidr"`
		// HostPrefix is required but has no effect: the network operator renders only CIDR.
		HostPrefix int `json:"hostPrefix"`
	} `json:"hybridClusterNetwork"`
	Port *uint32 `json:"hybridOverlayVXLANPort"`
}

// ReadNetwork reads the spec of a Network object.
func ReadNetwork(n *unstructured.Unstructured) (spec NetworkSpec, err error) {
	read, _, err := unstructured.NestedMap(n.Object, "spec")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(read, &spec)
	}
	if err != nil {
		return NetworkSpec{}, fmt.Errorf("reading Network %s: %w", n.GetName(), err)
	}
	return spec, nil
}

// Render returns ovnkube.conf as the network operator renders it, without the sections that only affect Linux nodes. Of the
// hybrid overlay, it contains the port and the first range without hostPrefix. OVN ignores Windows nodes only while the hybrid
// overlay is configured.
func (n NetworkSpec) Render() string {
	var cluster, lines []string
	for _, r := range n.ClusterNetwork {
		cluster = append(cluster, fmt.Sprintf("%s/%d", r.CIDR, r.HostPrefix))
	}
	add := func(key, value string) {
		if value != "" {
			lines = append(lines, fmt.Sprintf("%s=%q", key, value))
		}
	}
	section := func(name string) { lines = append(lines, "", "["+name+"]") }
	ovn := n.DefaultNetwork.OVN
	section("default")
	add("cluster-subnets", strings.Join(cluster, ","))
	section("kubernetes")
	add("service-cidrs", strings.Join(n.ServiceNetwork, ","))
	add("ovn-config-namespace", "openshift-ovn-kubernetes")
	if ovn.Hybrid != nil {
		add("no-hostsubnet-nodes", "kubernetes.io/os=windows")
	}
	section("gateway")
	lines = append(lines, "mode=shared")
	add("v4-join-subnet", ovn.IPv4.Join)
	add("v4-masquerade-subnet", ovn.Gateway.IPv4.Masquerade)
	section("clustermanager")
	add("v4-transit-subnet", ovn.IPv4.Transit)
	if ovn.Hybrid != nil {
		section("hybridoverlay")
		lines = append(lines, "enabled=true")
		if len(ovn.Hybrid.Networks) > 0 {
			add("cluster-subnets", ovn.Hybrid.Networks[0].CIDR)
		}
		if ovn.Hybrid.Port != nil {
			add("hybrid-overlay-vxlan-port", fmt.Sprint(*ovn.Hybrid.Port))
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n")) + "\n"
}

// validateChange returns an error if the network operator rejects the change from the current spec.
func (n NetworkSpec) validateChange(current *NetworkSpec) error {
	if current == nil {
		return nil
	}
	before, want := current.DefaultNetwork.OVN.Hybrid, n.DefaultNetwork.OVN.Hybrid
	if before != nil && want != nil && !reflect.DeepEqual(before, want) {
		return errors.New("hybridOverlayConfig can be set and removed, but not changed, while the hybrid overlay runs")
	}
	return nil
}

// networkInterval is how often FollowNetwork reads the object.
const networkInterval = 200 * time.Millisecond

// FollowNetwork manages OVN-Kubernetes like the network operator until ctx is done: it starts OVN-Kubernetes with the configuration of
// the Network object, and restarts it after each change. It reports changes that it rejects in condition Degraded.
func FollowNetwork(ctx context.Context, c client.Client, start func(ctx context.Context, conf string) error, failed func(error)) {
	var current *NetworkSpec
	for ; ctx.Err() == nil; time.Sleep(networkInterval) {
		n := &unstructured.Unstructured{}
		n.SetAPIVersion("operator.openshift.io/v1")
		n.SetKind("Network")
		err := c.Get(ctx, types.NamespacedName{Name: "cluster"}, n)
		var spec NetworkSpec
		if err == nil {
			spec, err = ReadNetwork(n)
		}
		if err != nil {
			failed(err) // for example while the API server restarts
			continue
		}
		if invalid := spec.validateChange(current); invalid != nil {
			err = setDegraded(ctx, c, n, invalid)
		} else if current == nil || !reflect.DeepEqual(spec, *current) {
			current = &spec
			err = errors.Join(start(ctx, spec.Render()), setDegraded(ctx, c, n, nil))
		} else {
			err = setDegraded(ctx, c, n, nil)
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// setDegraded writes condition Degraded if its status differs. It is False if problem is nil.
func setDegraded(ctx context.Context, c client.Client, n *unstructured.Unstructured, problem error) error {
	status, reason, message := "False", "AsExpected", ""
	if problem != nil {
		status, reason, message = "True", "InvalidOperatorConfig", problem.Error()
	}
	conditions, _, _ := unstructured.NestedSlice(n.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == "Degraded" && fields["status"] == status {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Degraded", "status": status, "reason": reason, "message": message, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}}})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, n, client.RawPatch(types.MergePatchType, patch))
}
