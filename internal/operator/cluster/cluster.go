// Package cluster reads what every node must know about its cluster: the API server's address, the certificates to trust, the addresses of services.
// It works on plain Kubernetes and on OpenShift.
package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Read reads the cluster. namespace is the operator's namespace, whose kube-root-ca.crt is read. The error names the object that is missing or
// invalid, and the remedy.
func Read(ctx context.Context, r client.Reader, via Connection, namespace string, config v1alpha1.WindowsConfigSpec) (desired.Cluster, error) {
	var c desired.Cluster
	parts := []func() error{
		func() (err error) { c.ID, err = ID(ctx, r); return err },
		func() (err error) {
			c.CA, err = configMapValue(ctx, r, namespace, "kube-root-ca.crt", "ca.crt")
			return err
		},
		// The API server authenticates its clients with this bundle. Its own client certificates for kubelets come from the same authority.
		func() (err error) {
			c.KubeletClientCA, err = configMapValue(ctx, r, "kube-system", "extension-apiserver-authentication", "client-ca-file")
			return err
		},
		func() error { return readServer(ctx, r, via, config.Cluster, &c) },
		func() error { return readServiceCIDRs(ctx, r, &c) },
		func() error { return readDNS(ctx, r, via, config.Network.DNS, &c) },
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return desired.Cluster{}, err
		}
	}
	return c, nil
}

// ID returns the cluster's ID: the UID of namespace kube-system.
func ID(ctx context.Context, r client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := r.Get(ctx, types.NamespacedName{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("reading Namespace kube-system: %w", err)
	}
	return string(ns.UID), nil
}

func configMapValue(ctx context.Context, r client.Reader, namespace, name, key string) (string, error) {
	var cm corev1.ConfigMap
	if err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &cm); err != nil {
		return "", fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	if cm.Data[key] == "" {
		return "", fmt.Errorf("ConfigMap %s/%s has no key %s", namespace, name, key)
	}
	return cm.Data[key], nil
}
