//go:build linux

package deploytest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// flannels is the prefix of Flannel's annotations.
const flannels = "flannel.alpha.coreos.com/"

// testWICDOnFlannel does with WICD's identity what flanneld does, and more. flanneld writes its annotations with the status of
// the node.
func (c *cluster) testWICDOnFlannel(t *testing.T) {
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
		{"lists nodes", "", func(ctx context.Context) error { return drop(wicd.CoreV1().Nodes().List(ctx, metav1.ListOptions{})) }},
		{"watches nodes", "", func(ctx context.Context) error {
			return watched(wicd.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{}))
		}},
		{"tells where its pods are", "", write(map[string]any{
			flannels + "backend-type": "vxlan", flannels + "backend-data": `{"VNI":4096,"VtepMAC":""}`,
			flannels + "public-ip": "192.0.2.1", flannels + "kube-subnet-manager": "true",
		})},
		{"changes that", "", write(map[string]any{flannels + "backend-data": `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:01"}`})},
		{"takes it away", "", write(map[string]any{flannels + "public-ip": nil})},
		{"chooses its address, as an administrator may", policy, write(map[string]any{flannels + "public-ip-overwrite": "192.0.2.66"})},
		{"adds an annotation of others behind it", policy, write(map[string]any{flannels + "public-ip": "192.0.2.2", "example.com/new": "x"})},
		{"changes its version behind it", policy, write(map[string]any{flannels + "public-ip": "192.0.2.2", group + "/version": "2"})},
		{"takes its version away behind it", policy, write(map[string]any{flannels + "public-ip": "192.0.2.2", group + "/version": nil})},
		{"says that the network works", policy, func(ctx context.Context) error {
			return setCondition(ctx, wicd, node, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse})
		}},
		{"tells it without a status", "ValidatingAdmissionPolicy 'windows-instance-config-daemon'", func(ctx context.Context) error {
			return patchNode(ctx, wicd, node, annotate(flannels+"public-ip", "192.0.2.2"))
		}},
		{"tells it of another node", "is not the node of user system:wicd-node:" + node, func(ctx context.Context) error {
			return patchStatus(ctx, wicd, "win-2", types.StrategicMergePatchType, annotate(flannels+"public-ip", "192.0.2.1"))
		}},
	})
	current, err := c.admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	must(t, err)
	if got := current.Annotations; got[flannels+"public-ip"] != "" || got[flannels+"backend-type"] != "vxlan" || got[flannels+"backend-data"] != `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:01"}` || got[group+"/version"] != "1" {
		t.Errorf("the node has the annotations %v", got)
	}
	bare := c.asWICD(t, "win-bare")
	try(t, []attempt{{"tells it of a node without a status", "", func(ctx context.Context) error {
		return patchStatus(ctx, bare, "win-bare", types.StrategicMergePatchType, annotate(flannels+"public-ip", "192.0.2.1"))
	}}})
}
