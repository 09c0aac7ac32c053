//go:build linux

package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// FlannelNetwork is the name of the network that Flannel makes on Windows.
const FlannelNetwork = "flannel.4096"

// flannelConf is Flannel's configuration. The range has those of all labs in it.
const flannelConf = `{"Network": "10.128.0.0/9", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`

// AnnotationFlannel begins the names of Flannel's annotations of Nodes.
const AnnotationFlannel = "flannel.alpha.coreos.com/"

// configureFlannel makes what Flannel's manifest has of its configuration.
func configureFlannel(ctx context.Context, c client.Client) error {
	return errors.Join(
		c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FlannelNamespace}}),
		c.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.FlannelNamespace, Name: v1alpha1.FlannelConfigMap},
			Data:       map[string]string{"net-conf.json": flannelConf},
		}))
}

// AddFlannelNode makes a Node of a Linux worker with Flannel. Nothing runs there. It returns the Node with its range of pods, which it has
// before Flannel tells of it: Flannel's other nodes do not look again at one that has no range when it is told.
func (w *World) AddFlannelNode(ctx context.Context, name, address, mac string) (*corev1.Node, error) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	if err := w.Client.Create(ctx, n); err != nil {
		return nil, fmt.Errorf("making Node %s: %w", name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := w.Client.Get(ctx, types.NamespacedName{Name: name}, n)
		return n.Spec.PodCIDR != "", err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the range of Node %s: %w", name, err)
	}
	was := n.DeepCopy()
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, AnnotationFlannel+"kube-subnet-manager", "true")
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, AnnotationFlannel+"backend-type", "vxlan")
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, AnnotationFlannel+"backend-data", fmt.Sprintf(`{"VNI":4096,"VtepMAC":%q}`, mac))
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, AnnotationFlannel+"public-ip", address)
	if err := w.Client.Patch(ctx, n, client.MergeFrom(was)); err != nil {
		return nil, fmt.Errorf("telling of Flannel on Node %s: %w", name, err)
	}
	return n, nil
}
