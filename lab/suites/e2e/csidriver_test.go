//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	azureFile       = "file.csi.azure.com"
	azureFilePlugin = "csi-azurefile-node-win"
	shareAccount    = "reports"
)

// TestCSIDriver runs Azure File's CSI driver with its own manifests, changed as docs/storage.md describes, and Samba as the file server. The node
// plugin, in HostProcess containers, registers with the kubelet and logs in to the share. The pod with the volume does not start, because Wine lacks
// symbolic links, with which Windows mounts a share.
func TestCSIDriver(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries(), lab.CanServeFiles())
	p := newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab, Pods: true})
	const password = "share-password"
	server, err := p.Lab.StartFileServer(t.Context(), shareAccount, password)
	must(t, err)
	must(t, p.Lab.AddAzureFile(t.Context(), p.PodImages()))
	host := p.Lab.Hosts()[0]
	fresh := takeSnapshot(t, host)
	p.joinAll()
	p.installAzureFile()

	reader := p.useShare(p.Lab.Address(), "wrong")
	p.expectPodEvent(reader, "FailedMount", "The user name or password is incorrect")
	var secret corev1.Secret
	p.get(types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: shareAccount}, &secret)
	secret.Data["azurestorageaccountkey"] = []byte(password)
	must(t, p.Client.Update(t.Context(), &secret))
	p.eventually("the node has mapped the share", func(context.Context) string {
		user, err := host.MappedShare(server)
		if err != nil || user != `AZURE\`+shareAccount {
			return fmt.Sprintf("got user %q (%v)", user, err)
		}
		return ""
	})
	if n, err := server.Logons(); err != nil || n == 0 {
		t.Errorf("got %d logons at the file server (%v), want some", n, err)
	}

	p.remove(reader)
	for _, folder := range []string{
		`dev`, `hpc`, `var\run`, `var\run\secrets`, `var\run\secrets\kubernetes.io`, `var\run\secrets\kubernetes.io\serviceaccount`,
	} {
		fresh[`file C:\`+folder] = fs.ModeDir.String() // HostProcess containers leave their mount points (hcsshim, ApplyFileBinding)
	}
	fresh[`file C:\dev\termination-log`] = takeSnapshot(t, host)[`file C:\dev\termination-log`] // Windows has no such file
	p.leave(host, fresh)                                                                        // the driver is still installed
}

// installAzureFile applies the driver's own manifests. Its DaemonSet for Windows does not tolerate the taint of Windows nodes.
func (p harness) installAzureFile() {
	p.t.Helper()
	objects, err := manifest.ReadModule(p.t.Context(), "../../cluster/csidriver", lab.AzureFileModule,
		"deploy/csi-azurefile-driver.yaml", "deploy/rbac-csi-azurefile-node.yaml", "deploy/csi-azurefile-node-windows-hostprocess.yaml")
	must(p.t, err)
	must(p.t, manifest.ApplyObjects(p.t.Context(), p.Lab.ControlPlane.RESTConfig(), objects))
	name := types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: azureFilePlugin}
	var d appsv1.DaemonSet
	p.eventually("the DaemonSet of the node plugin was observed", func(ctx context.Context) string {
		if err := p.Client.Get(ctx, name, &d); err != nil || d.Status.ObservedGeneration == 0 {
			return fmt.Sprintf("observedGeneration is 0 (%v)", err)
		}
		return ""
	})
	if d.Status.DesiredNumberScheduled != 0 {
		p.t.Errorf("the unchanged DaemonSet fits %d nodes, want none (docs/storage.md)", d.Status.DesiredNumberScheduled)
	}
	// By default the driver maps shares with WMI, which Wine lacks.
	patch := []byte(`[
		{"op": "add", "path": "/spec/template/spec/tolerations/-", "value": {"key": "os", "operator": "Exists", "effect": "NoSchedule"}},
		{"op": "add", "path": "/spec/template/spec/containers/1/args/-", "value": "--use-win-cim-api=false"}
	]`)
	must(p.t, p.Client.Patch(p.t.Context(), &d, client.RawPatch(types.JSONPatchType, patch)))
	p.eventually("the driver is registered on the node", func(ctx context.Context) string {
		var node storagev1.CSINode
		if err := p.Client.Get(ctx, types.NamespacedName{Name: "win-1"}, &node); err != nil {
			return err.Error()
		}
		for _, d := range node.Spec.Drivers {
			if d.Name == azureFile && d.NodeID == "win-1" {
				return ""
			}
		}
		return fmt.Sprintf("got drivers %+v; %s", node.Spec.Drivers, p.pluginState(ctx))
	})
}

// pluginState returns the state of the node plugin's containers.
func (p harness) pluginState(ctx context.Context) string {
	var pods corev1.PodList
	err := p.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"app": azureFilePlugin})
	if err != nil || len(pods.Items) == 0 {
		return fmt.Sprintf("the node plugin has no pod (%v)", err)
	}
	s := pods.Items[0].Status
	return fmt.Sprintf("%s %+v %+v", s.Message, s.InitContainerStatuses, s.ContainerStatuses)
}

// useShare creates a pod that mounts the share as a volume.
func (p harness) useShare(server, password string) *corev1.Pod {
	p.t.Helper()
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: shareAccount}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	p.create(&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"azurestorageaccountname": shareAccount, "azurestorageaccountkey": password}})
	p.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: shareAccount}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: azureFile, VolumeHandle: "lab#" + shareAccount + "#" + lab.SharedFolder,
			VolumeAttributes:   map[string]string{"server": server, "shareName": lab.SharedFolder},
			NodeStageSecretRef: &corev1.SecretReference{Namespace: meta.Namespace, Name: meta.Name},
		}},
	}})
	p.create(&corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: modes, StorageClassName: new(""), VolumeName: shareAccount, Resources: corev1.VolumeResourceRequirements{Requests: size},
	}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "reader"}, Spec: testenv.WebserverPod()}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: shareAccount},
	}})
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: `C:\data`})
	p.create(pod)
	return pod
}
