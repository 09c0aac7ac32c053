//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab/cluster/vsphere"
)

// autoscalerVariable is the environment variable with the path of the cluster autoscaler, which no downloadable module contains.
const autoscalerVariable = "WMCO_CLUSTER_AUTOSCALER"

// scaleByLoad has the cluster autoscaler scale a MachineSet from zero for a pending pod, and back to zero after the pod is deleted.
func (v vSphereTest) scaleByLoad() {
	program := os.Getenv(autoscalerVariable)
	if program == "" {
		v.t.Skipf("SKIPPED: %s is not set: make e2e SHARD=1 ONLY=TestVSphere AUTOSCALER=<path> (lab/README.md)", autoscalerVariable)
	}
	v.limit(0, 2)
	log := filepath.Join(v.t.TempDir(), "autoscaler.log")
	running, err := v.Lab.ControlPlane.Start(log, "/usr/bin/env", "CAPI_GROUP=machine.openshift.io", "CAPI_VERSION=v1beta1", program,
		"--cloud-provider=clusterapi", "--kubeconfig="+v.Kubeconfig, "--leader-elect=false", "--address=127.0.0.1:0", "--v=4", "--scan-interval=5s",
		"--node-group-auto-discovery=clusterapi:namespace="+vsphere.Namespace, "--scale-down-unneeded-time=10s", "--scale-down-delay-after-add=10s",
		"--scale-down-unready-time=1h", "--unremovable-node-recheck-timeout=5s")
	must(v.t, err)
	v.t.Cleanup(func() {
		if v.t.Failed() {
			v.t.Log("the end of the log of the cluster autoscaler:\n" + running.Log(20_000))
		}
		running.Stop()
	})
	began := time.Now()
	d := v.webserver(appWeb, 1, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: byHostname(corev1.NodeSelectorOpNotIn, v.Hosts()[0].Name)}
	})
	v.expectRunning(appWeb)
	v.t.Logf("autoscaler.pending_to_running_seconds %.0f s", time.Since(began).Seconds())
	v.expectMachines(1)
	v.remove(d)
	v.expectMachines(0)
}

// limit annotates the MachineSet with the cluster autoscaler's minimum and maximum size.
func (v vSphereTest) limit(minimum, maximum int) {
	v.t.Helper()
	const limit = "machine.openshift.io/cluster-api-autoscaler-node-group-"
	set := v.machineSet(machineSetName)
	now := set.DeepCopy()
	now.SetAnnotations(map[string]string{limit + "min-size": fmt.Sprint(minimum), limit + "max-size": fmt.Sprint(maximum)})
	must(v.t, v.Client.Patch(v.t.Context(), now, client.MergeFrom(set)))
}

// byHostname returns an affinity for nodes whose names are, or are not, in a list.
func byHostname(operator corev1.NodeSelectorOperator, names ...string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: operator, Values: names}},
	}}}}
}
