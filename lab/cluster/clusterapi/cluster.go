//go:build linux

package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCluster creates a Cluster whose control plane has the given endpoint, and Secret <name>-kubeconfig, through which the controllers
// of Cluster API connect to it. kubeconfig is the path of a file.
func NewCluster(ctx context.Context, c client.Client, namespace, name, endpoint, kubeconfig string) error {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	at := map[string]any{"host": host, "port": number}
	err = errors.Join(
		c.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-kubeconfig", Labels: map[string]string{clusterNameLabel: name}},
			Type:       Group + "/secret", Data: map[string][]byte{bootstrapSecretValue: content},
		}),
		c.Create(ctx, object(labCluster(), namespace, name, map[string]any{"spec": map[string]any{"controlPlaneEndpoint": at}})),
		c.Create(ctx, object(labControlPlane(), namespace, name, map[string]any{"spec": map[string]any{}})),
		c.Create(ctx, object(Kind("Cluster"), namespace, name, map[string]any{"spec": map[string]any{
			"controlPlaneEndpoint": at, "infrastructureRef": reference(labCluster(), name), "controlPlaneRef": reference(labControlPlane(), name),
		}})),
		c.Create(ctx, object(labMachineTemplate(), namespace, name, map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}},
		})),
	)
	if err != nil {
		return fmt.Errorf("creating Cluster %s/%s: %w", namespace, name, err)
	}
	return nil
}

// MachineDeployment returns a MachineDeployment of a Cluster that NewCluster has created. Its Machines have the labels, and use
// the bootstrap data of the Secret.
func MachineDeployment(namespace, cluster, name string, replicas int64, secret string, labels map[string]string) client.Object {
	machineLabels := map[string]any{}
	for key, value := range labels {
		machineLabels[key] = value
	}
	return object(Kind("MachineDeployment"), namespace, name, map[string]any{"spec": map[string]any{
		"clusterName": cluster, "replicas": replicas, "selector": map[string]any{},
		"template": map[string]any{
			"metadata": map[string]any{"labels": machineLabels},
			"spec": map[string]any{
				"clusterName": cluster, "bootstrap": map[string]any{"dataSecretName": secret}, "infrastructureRef": reference(labMachineTemplate(), cluster),
			},
		},
	}})
}
