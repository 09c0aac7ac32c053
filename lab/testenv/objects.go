//go:build linux

package testenv

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// AddNode creates a Node with an address, without a host.
func AddNode(ctx context.Context, clients kubernetes.Interface, n *corev1.Node, address string) (*corev1.Node, error) {
	nodes := clients.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, n, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating Node %s: %w", n.Name, err)
	}
	patch := fmt.Appendf(nil, `{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, address)
	patched, err := nodes.Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("setting the address of Node %s: %w", n.Name, err)
	}
	return patched, nil
}

// AddService creates a Service in namespace default with an EndpointSlice, without servers at its addresses.
func AddService(ctx context.Context, clients kubernetes.Interface, name string, addresses ...string) (*corev1.Service, error) {
	port, number, ready := "web", int32(8080), true
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	service.Spec.Ports = []corev1.ServicePort{{Name: port, Port: 80}}
	service, err := clients.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating Service %s: %w", name, err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	if _, err := clients.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the EndpointSlice of Service %s: %w", name, err)
	}
	return service, nil
}
