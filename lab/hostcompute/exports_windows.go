package main

import "C"

import (
	"unsafe"

	"github.com/windows-machine-config/wmco/lab/hns"
)

// The calls of computenetwork.dll: the same seven for each kind of object.

//export HcnEnumerateNetworks
func HcnEnumerateNetworks(query *uint16, list, details **uint16) uint32 {
	return enumerate(hns.Network, query, list, details)
}

//export HcnCreateNetwork
func HcnCreateNetwork(id unsafe.Pointer, settings *uint16, handle *uintptr, details **uint16) uint32 {
	return create(hns.Network, id, text(settings), handle, details)
}

//export HcnOpenNetwork
func HcnOpenNetwork(id unsafe.Pointer, handle *uintptr, details **uint16) uint32 {
	return open(hns.Network, id, handle, details)
}

//export HcnModifyNetwork
func HcnModifyNetwork(handle uintptr, request *uint16, details **uint16) uint32 {
	return modify(hns.Network, handle, request, details)
}

//export HcnQueryNetworkProperties
func HcnQueryNetworkProperties(handle uintptr, query *uint16, to, details **uint16) uint32 {
	return properties(hns.Network, handle, to, details)
}

//export HcnDeleteNetwork
func HcnDeleteNetwork(id unsafe.Pointer, details **uint16) uint32 {
	return remove(hns.Network, id, details)
}

//export HcnCloseNetwork
func HcnCloseNetwork(handle uintptr) uint32 { return forget(handle) }

//export HcnEnumerateEndpoints
func HcnEnumerateEndpoints(query *uint16, list, details **uint16) uint32 {
	return enumerate(hns.Endpoint, query, list, details)
}

//export HcnCreateEndpoint
func HcnCreateEndpoint(network uintptr, id unsafe.Pointer, settings *uint16, handle *uintptr, details **uint16) uint32 {
	return createEndpoint(network, id, settings, handle, details)
}

//export HcnOpenEndpoint
func HcnOpenEndpoint(id unsafe.Pointer, handle *uintptr, details **uint16) uint32 {
	return open(hns.Endpoint, id, handle, details)
}

//export HcnModifyEndpoint
func HcnModifyEndpoint(handle uintptr, request *uint16, details **uint16) uint32 {
	return modify(hns.Endpoint, handle, request, details)
}

//export HcnQueryEndpointProperties
func HcnQueryEndpointProperties(handle uintptr, query *uint16, to, details **uint16) uint32 {
	return properties(hns.Endpoint, handle, to, details)
}

//export HcnDeleteEndpoint
func HcnDeleteEndpoint(id unsafe.Pointer, details **uint16) uint32 {
	return remove(hns.Endpoint, id, details)
}

//export HcnCloseEndpoint
func HcnCloseEndpoint(handle uintptr) uint32 { return forget(handle) }

//export HcnEnumerateNamespaces
func HcnEnumerateNamespaces(query *uint16, list, details **uint16) uint32 {
	return enumerate(hns.Namespace, query, list, details)
}

//export HcnCreateNamespace
func HcnCreateNamespace(id unsafe.Pointer, settings *uint16, handle *uintptr, details **uint16) uint32 {
	return create(hns.Namespace, id, text(settings), handle, details)
}

//export HcnOpenNamespace
func HcnOpenNamespace(id unsafe.Pointer, handle *uintptr, details **uint16) uint32 {
	return open(hns.Namespace, id, handle, details)
}

//export HcnModifyNamespace
func HcnModifyNamespace(handle uintptr, request *uint16, details **uint16) uint32 {
	return modify(hns.Namespace, handle, request, details)
}

//export HcnQueryNamespaceProperties
func HcnQueryNamespaceProperties(handle uintptr, query *uint16, to, details **uint16) uint32 {
	return properties(hns.Namespace, handle, to, details)
}

//export HcnDeleteNamespace
func HcnDeleteNamespace(id unsafe.Pointer, details **uint16) uint32 {
	return remove(hns.Namespace, id, details)
}

//export HcnCloseNamespace
func HcnCloseNamespace(handle uintptr) uint32 { return forget(handle) }

//export HcnEnumerateLoadBalancers
func HcnEnumerateLoadBalancers(query *uint16, list, details **uint16) uint32 {
	return enumerate(hns.LoadBalancer, query, list, details)
}

//export HcnCreateLoadBalancer
func HcnCreateLoadBalancer(id unsafe.Pointer, settings *uint16, handle *uintptr, details **uint16) uint32 {
	return create(hns.LoadBalancer, id, text(settings), handle, details)
}

//export HcnOpenLoadBalancer
func HcnOpenLoadBalancer(id unsafe.Pointer, handle *uintptr, details **uint16) uint32 {
	return open(hns.LoadBalancer, id, handle, details)
}

//export HcnModifyLoadBalancer
func HcnModifyLoadBalancer(handle uintptr, request *uint16, details **uint16) uint32 {
	return modify(hns.LoadBalancer, handle, request, details)
}

//export HcnQueryLoadBalancerProperties
func HcnQueryLoadBalancerProperties(handle uintptr, query *uint16, to, details **uint16) uint32 {
	return properties(hns.LoadBalancer, handle, to, details)
}

//export HcnDeleteLoadBalancer
func HcnDeleteLoadBalancer(id unsafe.Pointer, details **uint16) uint32 {
	return remove(hns.LoadBalancer, id, details)
}

//export HcnCloseLoadBalancer
func HcnCloseLoadBalancer(handle uintptr) uint32 { return forget(handle) }
