// Package overlay is the program hybrid-overlay-node of a Windows host in a cluster with OVN-Kubernetes. It creates the two networks
// of the hybrid overlay, publishes the address of the host's router, and keeps the remote subnets of the other nodes up to date.
//
// As annotations of Nodes, OVN-Kubernetes' master writes the subnet of each Windows node, and each node writes its router's address.
// plan.go computes the networks from them (pure), reconcile.go changes the Host Network Service, state.go keeps the watched Nodes,
// and apisession.go makes all requests with the certificate of identity.go.
//
// Nothing here calls Windows: package internal/node/win/network implements the interface HNS.
package overlay
