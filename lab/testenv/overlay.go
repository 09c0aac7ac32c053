//go:build linux

package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/openshift"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
)

// linuxPodNetwork is the range of Linux nodes in the hybrid overlay. They have no pods with addresses of their own.
const linuxPodNetwork = "172.20.0.0/14"

// startOVN starts OVN-Kubernetes with the configuration that OpenShift's network operator renders. On OpenShift, the
// configuration follows the Network object.
func (env *Env) startOVN(ctx context.Context, o Options) (err error) {
	folder := filepath.Join(env.folder.Path, "ovn")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	env.OVN, err = ovn.Open(ctx, ovn.Options{
		ControlPlane: env.Lab.ControlPlane, Kubeconfig: env.Kubeconfig, Folder: folder, Programs: o.OVN, Log: o.Log,
	})
	if err != nil {
		return fmt.Errorf("installing OVN-Kubernetes: %w", err)
	}
	network := env.networkObject()
	if o.OpenShift == "" {
		spec, err := openshift.ReadNetwork(network)
		if err == nil {
			err = env.OVN.Configure(ctx, spec.Render())
		}
		return err
	}
	if err := env.writeNetwork(ctx, network); err != nil {
		return err
	}
	log := o.Log
	if log == nil {
		log = io.Discard
	}
	go openshift.FollowNetwork(env.running, env.Client, func(ctx context.Context, conf string) error { return env.OVN.Configure(ctx, conf) }, func(err error) {
		fmt.Fprintln(log, "OpenShift's network operator:", err)
	})
	return nil
}

// HybridOverlayConfig returns the field that an administrator sets in OpenShift's Network object. Despite its hostPrefix,
// Windows nodes get subnets of length 24.
func (env *Env) HybridOverlayConfig() string {
	return fmt.Sprintf("{hybridClusterNetwork: [{cidr: %s, hostPrefix: 23}]}", env.Lab.PodNetwork())
}

// networkObject returns OpenShift's Network object with the fields that OVN-Kubernetes depends on.
func (env *Env) networkObject() *unstructured.Unstructured {
	n := &unstructured.Unstructured{}
	text := fmt.Sprintf(`
apiVersion: operator.openshift.io/v1
kind: Network
metadata: {name: cluster}
spec:
  clusterNetwork: [{cidr: %s, hostPrefix: %d}]
  serviceNetwork: [%s]
  defaultNetwork: {type: OVNKubernetes, ovnKubernetesConfig: {hybridOverlayConfig: %s}}
`, linuxPodNetwork, linuxPrefix, lab.ServiceNetwork, env.HybridOverlayConfig())
	if err := yaml.Unmarshal([]byte(text), &n.Object); err != nil {
		panic(err) // the text is constant
	}
	return n
}

// linuxPrefix is the length of a Linux node's subnet. It leaves room for the thousand nodes of the measurements.
const linuxPrefix = 24

// writeNetwork writes the two Network objects of OpenShift.
func (env *Env) writeNetwork(ctx context.Context, network *unstructured.Unstructured) error {
	text, err := network.MarshalJSON()
	if err != nil {
		return err
	}
	if err := env.Client.Patch(ctx, network, client.RawPatch(types.MergePatchType, text)); err != nil {
		return fmt.Errorf("configuring OpenShift's network: %w", err)
	}
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("config.openshift.io/v1")
	config.SetKind("Network")
	config.SetName("cluster")
	ranges := fmt.Sprintf(`{"clusterNetwork":[{"cidr":%q,"hostPrefix":%d}]}`, linuxPodNetwork, linuxPrefix)
	patch := fmt.Appendf(nil, `{"spec":%s,"status":%s}`, ranges, ranges)
	return env.Client.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch))
}

// linuxNodeTimeout is how long OVN-Kubernetes may take for a Linux node; on two busy cores it takes less than a second.
const linuxNodeTimeout = time.Minute

// AddLinuxNode creates the Node of a Linux worker, without a host, and returns it when it is in the hybrid overlay.
func (env *Env) AddLinuxNode(ctx context.Context, name, address string) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(linuxNodeTimeout))
	defer cancel()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	n, err := AddNode(ctx, env.Clients, n, address)
	if err != nil {
		return nil, err
	}
	err = lab.Until(ctx, 5*time.Millisecond, "Node "+name, func(ctx context.Context) (err error) {
		if n, err = env.Clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err == nil && n.Annotations[ovn.GatewayMACAnnotation] == "" {
			err = fmt.Errorf("annotation %s is missing\n%s", ovn.GatewayMACAnnotation, env.OVN.Log())
		}
		return err
	}, env.OVN.Ended)
	return n, err
}

// LinuxSubnet returns the subnet of a Linux node in the overlay.
func LinuxSubnet(n *corev1.Node) string {
	text := strings.TrimPrefix(n.Annotations[ovn.NodeSubnetsAnnotation], `{"default":["`)
	return strings.TrimSuffix(text, `"]}`)
}
