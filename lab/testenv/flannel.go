//go:build linux

package testenv

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

// FlannelNetwork is the name of the network that Flannel creates on Windows.
const FlannelNetwork = "flannel.4096"

// flannelConf is Flannel's configuration. Its range contains the pod ranges of all labs.
const flannelConf = `{"Network": "10.128.0.0/9", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`

// AnnotationFlannel is the prefix of Flannel's annotations of Nodes.
const AnnotationFlannel = "flannel.alpha.coreos.com/"

// configureFlannel creates the namespace and the ConfigMap of Flannel's manifest.
func configureFlannel(ctx context.Context, c client.Client) error {
	return errors.Join(
		c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FlannelNamespace}}),
		c.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.FlannelNamespace, Name: v1alpha1.FlannelConfigMap},
			Data:       map[string]string{"net-conf.json": flannelConf},
		}))
}

// AddFlannelNode creates the Node of a Linux worker with Flannel, without a host. It adds Flannel's annotations after the Node has its
// PodCIDR, because Flannel's other nodes permanently ignore a Node that is annotated before.
func (env *Env) AddFlannelNode(ctx context.Context, name, address, mac string) (*corev1.Node, error) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	if err := env.Client.Create(ctx, n); err != nil {
		return nil, fmt.Errorf("creating Node %s: %w", name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := env.Client.Get(ctx, types.NamespacedName{Name: name}, n)
		return n.Spec.PodCIDR != "", err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the PodCIDR of Node %s: %w", name, err)
	}
	before := n.DeepCopy()
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, AnnotationFlannel+"kube-subnet-manager", "true")
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, AnnotationFlannel+"backend-type", "vxlan")
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, AnnotationFlannel+"backend-data", fmt.Sprintf(`{"VNI":4096,"VtepMAC":%q}`, mac))
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, AnnotationFlannel+"public-ip", address)
	if err := env.Client.Patch(ctx, n, client.MergeFrom(before)); err != nil {
		return nil, fmt.Errorf("annotating Node %s for Flannel: %w", name, err)
	}
	return n, nil
}
