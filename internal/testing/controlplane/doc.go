// Package controlplane generates what a control plane on one machine needs to start: the certificates and kubeconfig files of etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler, and their command lines. The lab starts them on Linux, the acceptance program on
// Windows.
package controlplane
