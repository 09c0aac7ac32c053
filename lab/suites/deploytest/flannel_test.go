//go:build linux

package deploytest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// flannelPrefix is the prefix of Flannel's annotations.
const flannelPrefix = "flannel.alpha.coreos.com/"

// testWICDFlannelPermissions makes the requests of flanneld with WICD's identity, and some others. flanneld writes its
// annotations through the status of the Node.
func (c *cluster) testWICDFlannelPermissions(t *testing.T) {
	const node = "win-flannel"
	c.newNode(t, node)
	wicd := c.asWICD(t, node)
	write := func(annotations map[string]any) func(context.Context) error {
		return func(ctx context.Context) error {
			return patchStatus(ctx, wicd, node, types.StrategicMergePatchType, metadata("annotations", annotations))
		}
	}
	const policy = "ValidatingAdmissionPolicy 'windows-instance-config-daemon-status'"
	try(t, []attempt{
		{"list Nodes", "", func(ctx context.Context) error { return errOf(wicd.CoreV1().Nodes().List(ctx, metav1.ListOptions{})) }},
		{"watch Nodes", "", func(ctx context.Context) error {
			return watchErr(wicd.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{}))
		}},
		{"set Flannel's annotations", "", write(map[string]any{
			flannelPrefix + "backend-type": "vxlan", flannelPrefix + "backend-data": `{"VNI":4096,"VtepMAC":""}`,
			flannelPrefix + "public-ip": "192.0.2.1", flannelPrefix + "kube-subnet-manager": "true",
		})},
		{"change an annotation of Flannel", "", write(map[string]any{flannelPrefix + "backend-data": `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:01"}`})},
		{"remove an annotation of Flannel", "", write(map[string]any{flannelPrefix + "public-ip": nil})},
		{"set the annotation that overrides its address", policy, write(map[string]any{flannelPrefix + "public-ip-overwrite": "192.0.2.66"})},
		{"add another annotation together with Flannel's", policy, write(map[string]any{flannelPrefix + "public-ip": "192.0.2.2", "example.com/new": "x"})},
		{"change its version together with Flannel's annotations", policy, write(map[string]any{flannelPrefix + "public-ip": "192.0.2.2", group + "/version": "2"})},
		{"remove its version together with Flannel's annotations", policy, write(map[string]any{flannelPrefix + "public-ip": "192.0.2.2", group + "/version": nil})},
		{"set condition NetworkUnavailable", policy, func(ctx context.Context) error {
			return setCondition(ctx, wicd, node, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse})
		}},
		{"set Flannel's annotations without the status", "ValidatingAdmissionPolicy 'windows-instance-config-daemon'", func(ctx context.Context) error {
			return patchNode(ctx, wicd, node, annotate(flannelPrefix+"public-ip", "192.0.2.2"))
		}},
		{"set Flannel's annotations of another Node", "is not the node of user system:wicd-node:" + node, func(ctx context.Context) error {
			return patchStatus(ctx, wicd, "win-2", types.StrategicMergePatchType, annotate(flannelPrefix+"public-ip", "192.0.2.1"))
		}},
	})
	current, err := c.admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	must(t, err)
	if got := current.Annotations; got[flannelPrefix+"public-ip"] != "" || got[flannelPrefix+"backend-type"] != "vxlan" || got[flannelPrefix+"backend-data"] != `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:01"}` || got[group+"/version"] != "1" {
		t.Errorf("got annotations %v, want only the permitted changes", got)
	}
	bare := c.asWICD(t, "win-bare")
	try(t, []attempt{{"set Flannel's annotations of a Node without status", "", func(ctx context.Context) error {
		return patchStatus(ctx, bare, "win-bare", types.StrategicMergePatchType, annotate(flannelPrefix+"public-ip", "192.0.2.1"))
	}}})
}
