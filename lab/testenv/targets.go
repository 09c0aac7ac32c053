//go:build linux

package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab"
)

// The roles of Prometheus' discovery in Kubernetes that the scrape configuration uses.
const roleNode, roleEndpointSlice = "node", "endpointslice"

// targets replaces Prometheus' own discovery in Kubernetes, which Debian's build lacks: it reads Nodes and EndpointSlices with the permissions of
// Prometheus, and writes them with the labels that Prometheus documents for these roles
// (https://prometheus.io/docs/prometheus/latest/configuration/configuration/#kubernetes_sd_config).
type targets struct{ clients kubernetes.Interface }

// targetGroup is an element of a file of targets.
type targetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func (env *Env) newTargets(token string) (targets, error) {
	config := env.Lab.ControlPlane.RESTConfig()
	clients, err := kubernetes.NewForConfig(&rest.Config{
		Host: config.Host, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData},
	})
	return targets{clients}, err
}

// follow writes the files whenever something changed, until ctx is done.
func (t targets) follow(ctx context.Context, prometheus *lab.Prometheus) {
	written := map[string][]byte{}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for role, read := range map[string]func(context.Context) ([]targetGroup, error){roleNode: t.nodes, roleEndpointSlice: t.endpoints} {
			groups, err := read(ctx)
			if err != nil {
				continue // the API server may be away
			}
			content, err := json.Marshal(groups)
			if err == nil && !bytes.Equal(content, written[role]) && prometheus.WriteFile(role+".json", content) == nil {
				written[role] = content
			}
		}
	}, time.Second)
}

func (t targets) nodes(ctx context.Context) ([]targetGroup, error) {
	list, err := t.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var groups []targetGroup
	for _, n := range list.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				labels := nodeLabels(n)
				labels["__meta_kubernetes_node_name"] = n.Name
				port := strconv.Itoa(int(n.Status.DaemonEndpoints.KubeletEndpoint.Port))
				groups = append(groups, targetGroup{[]string{net.JoinHostPort(a.Address, port)}, labels})
				break
			}
		}
	}
	return groups, nil
}

func nodeLabels(n corev1.Node) map[string]string {
	labels := map[string]string{}
	for key, value := range n.Labels {
		labels["__meta_kubernetes_node_label_"+regexp.MustCompile(`[^a-zA-Z0-9_]`).ReplaceAllString(key, "_")] = value
	}
	return labels
}

func (t targets) endpoints(ctx context.Context) ([]targetGroup, error) {
	list, err := t.clients.DiscoveryV1().EndpointSlices(api.DefaultNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var groups []targetGroup
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			for _, port := range slice.Ports {
				groups = append(groups, endpointTarget(slice, endpoint, port))
			}
		}
	}
	return groups, nil
}

func endpointTarget(slice discoveryv1.EndpointSlice, endpoint discoveryv1.Endpoint, port discoveryv1.EndpointPort) targetGroup {
	labels := map[string]string{
		"__meta_kubernetes_namespace": slice.Namespace, "__meta_kubernetes_endpointslice_name": slice.Name,
		"__meta_kubernetes_endpointslice_port_name": *port.Name, "__meta_kubernetes_service_name": slice.Labels[discoveryv1.LabelServiceName],
	}
	if to := endpoint.TargetRef; to != nil {
		labels["__meta_kubernetes_endpointslice_address_target_kind"], labels["__meta_kubernetes_endpointslice_address_target_name"] = to.Kind, to.Name
		if to.Kind == "Pod" {
			labels["__meta_kubernetes_pod_name"] = to.Name
		}
	}
	return targetGroup{[]string{net.JoinHostPort(endpoint.Addresses[0], fmt.Sprint(*port.Port))}, labels}
}
