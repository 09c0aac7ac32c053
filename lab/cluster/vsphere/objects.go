//go:build linux

package vsphere

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab/cluster/openshift"
)

// Namespace is the namespace of the Machine API.
const Namespace = "openshift-machine-api"

// Names of objects of the Machine API, and of the ConfigMap with the cloud configuration, to which Infrastructure refers.
const (
	group           = "machine.openshift.io"
	clusterLabel    = group + "/cluster-api-cluster"
	machineSetLabel = group + "/cluster-api-machineset"
	configNamespace = "openshift-config"
	configMap       = "cloud-provider-config"
	configKey       = "config"
	credentials     = "vsphere-cloud-credentials"
	linuxUserData   = "worker-user-data"
	linuxTemplate   = "rhcos"
)

// Objects of the vCenter: the names that its simulator uses, and the tag categories that OpenShift's installer uses for regions
// and zones.
const (
	Datacenter = "DC0"
	Cluster    = "DC0_C0"
	datastore  = "LocalDS_0"
	network    = "DC0_DVPG0"
	// Template is the virtual machine that is cloned.
	Template = "DC0_C0_RP0_VM0"

	RegionCategory, ZoneCategory = "openshift-region", "openshift-zone"
	// Region and Zone are the tags of the datacenter and its cluster of hypervisors.
	Region, Zone = "lab-region", "lab-zone"

	User, Password = "administrator@vsphere.local", "vcenter-of-the-lab"
	Loopback       = "127.0.0.1"
)

// cloudConfig returns the cloud configuration as OpenShift's installer writes it.
func cloudConfig(vcenter string) (string, error) {
	host, port, err := net.SplitHostPort(vcenter)
	return fmt.Sprintf(`global:
  user: %[1]q
  password: %[2]q
  server: %[3]q
  port: %[4]s
  insecureFlag: true
vcenter:
  %[3]q:
    user: %[1]q
    password: %[2]q
    server: %[3]q
    port: %[4]s
    insecureFlag: true
    datacenters: [%[5]s]
labels:
  region: %[6]s
  zone: %[7]s
`, User, Password, host, port, Datacenter, RegionCategory, ZoneCategory), err
}

// Install creates the objects that OpenShift's installer creates for the Machine API on vSphere: the configuration and the
// credentials of the cloud, and a MachineSet for Linux with 0 replicas. The cluster must be an OpenShift cluster. vcenter is
// the address of the vCenter.
func Install(ctx context.Context, c client.Client, vcenter string) error {
	config, err := cloudConfig(vcenter)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(vcenter)
	if err != nil {
		return err
	}
	infrastructure := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": map[string]any{"name": "cluster"},
	}}
	changed := infrastructure.DeepCopy()
	changed.Object["spec"] = map[string]any{"cloudConfig": map[string]any{"name": configMap, "key": configKey}}
	if err := c.Patch(ctx, changed, client.MergeFrom(infrastructure)); err != nil {
		return err
	}
	for _, o := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: configNamespace, Name: configMap}, Data: map[string]string{configKey: config}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: credentials}, StringData: map[string]string{
			host + ".username": User, host + ".password": Password,
		}},
		linuxMachineSet(host),
	} {
		if err := c.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// MachineHealthCheck returns a MachineHealthCheck that deletes the Machines of a MachineSet whose nodes have been unreachable
// for 10 seconds.
func MachineHealthCheck(machineSet string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": openshift.MachineAPI, "kind": "MachineHealthCheck",
		"metadata": map[string]any{"namespace": Namespace, "name": machineSet},
		"spec": map[string]any{
			"selector":            map[string]any{"matchLabels": map[string]any{machineSetLabel: machineSet}},
			"unhealthyConditions": []any{map[string]any{"type": "Ready", "status": "Unknown", "timeout": "10s"}},
		},
	}}
}

// linuxMachineSet returns a MachineSet as the installer writes it. It uses linked clones because the simulator deletes the
// template's disk together with a full clone.
func linuxMachineSet(host string) *unstructured.Unstructured {
	const cluster = openshift.InfrastructureName
	const name = cluster + "-worker-0"
	selector := map[string]any{clusterLabel: cluster, machineSetLabel: name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": openshift.MachineAPI, "kind": "MachineSet",
		"metadata": map[string]any{"namespace": Namespace, "name": name, "labels": map[string]any{clusterLabel: cluster}},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": selector},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{
					clusterLabel: cluster, machineSetLabel: name,
					group + "/cluster-api-machine-role": "worker", group + "/cluster-api-machine-type": "worker",
				}},
				"spec": map[string]any{"providerSpec": map[string]any{"value": map[string]any{
					"apiVersion": openshift.MachineAPI, "kind": "VSphereMachineProviderSpec",
					"credentialsSecret": map[string]any{"name": credentials}, "userDataSecret": map[string]any{"name": linuxUserData},
					"cloneMode": "linkedClone", "diskGiB": int64(120), "memoryMiB": int64(16384), "numCPUs": int64(4), "numCoresPerSocket": int64(4), "snapshot": "",
					"network": map[string]any{"devices": []any{map[string]any{"networkName": network}}}, "template": linuxTemplate,
					"workspace": map[string]any{
						"datacenter": Datacenter, "datastore": "/" + Datacenter + "/datastore/" + datastore, "folder": "/" + Datacenter + "/vm",
						"resourcePool": "/" + Datacenter + "/host/" + Cluster + "/Resources", "server": host,
					},
				}}},
			},
		},
	}}
}
