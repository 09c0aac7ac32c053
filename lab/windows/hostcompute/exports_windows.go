package main

import "C"

import (
	"unsafe"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// The calls of computenetwork.dll: the same for each kind of object.

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

//export HcnDeleteNetwork
func HcnDeleteNetwork(id unsafe.Pointer, details **uint16) uint32 {
	return remove(hns.Network, id, details)
}

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

//export HcnDeleteEndpoint
func HcnDeleteEndpoint(id unsafe.Pointer, details **uint16) uint32 {
	return remove(hns.Endpoint, id, details)
}

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

//export HcnDeleteNamespace
func HcnDeleteNamespace(id unsafe.Pointer, details **uint16) uint32 {
	return remove(hns.Namespace, id, details)
}

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

//export HcnDeleteLoadBalancer
func HcnDeleteLoadBalancer(id unsafe.Pointer, details **uint16) uint32 {
	return remove(hns.LoadBalancer, id, details)
}

// Calls with a handle are the same for all kinds, because the handle has the kind of its object. computenetwork.dll forwards them here.

//export HcnModify
func HcnModify(handle uintptr, request *uint16, details **uint16) uint32 {
	return modify(handle, text(request), details)
}

//export HcnQueryProperties
func HcnQueryProperties(handle uintptr, query *uint16, to, details **uint16) uint32 {
	return properties(handle, to, details)
}

//export HcnClose
func HcnClose(handle uintptr) uint32 {
	handles.remove(handle)
	return 0
}
