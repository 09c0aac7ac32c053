// Package overlay is what hybrid-overlay-node does on a Windows host of a cluster with OVN-Kubernetes: it makes the two networks of
// the hybrid overlay, tells the cluster the address of the host's router, and keeps a way to the pods of each other node as nodes
// come, change and go.
//
// OVN-Kubernetes' master writes a subnet to each Windows node, and each node its router's address, as annotations. Read plan.go for
// what follows from them (pure), keeper.go for how the Host Network Service becomes equal to it, follow.go for how Nodes are
// watched, and identity.go for the certificate with which all that is done.
//
// Nothing here calls Windows: HNS is the port, which package win answers.
package overlay
