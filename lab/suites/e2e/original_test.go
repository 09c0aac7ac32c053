//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// originalVersion has the format of versions of the original operator.
const originalVersion = "10.20.1-0a1b2c3"

// originalLock is the ConfigMap by which instances of the original operator exclude each other.
const originalLock = "windows-machine-config-operator-lock"

// TestMigrationFromOriginalOperator prepares a cluster and hosts as the original operator leaves them. The check must report the required steps, and
// then this operator must adopt the nodes one at a time.
func TestMigrationFromOriginalOperator(t *testing.T) {
	const hosts = 3
	p := newHarness(t, testenv.Options{SimulatedHosts: hosts, OpenShift: "None", Before: func(ctx context.Context, env *testenv.Env) error {
		return originalCluster(ctx, t, env)
	}})
	watch := p.watchBudget(1)
	p.eventually("each host has an instance", func(context.Context) string {
		if n := len(p.instances()); n != hosts {
			return fmt.Sprintf("got %d instances, want %d", n, hosts)
		}
		return ""
	})
	p.expectAllReady()
	p.expectVersion(func(got string) bool { return got != originalVersion && got != "" })
	p.expectInService()
	if watch.cordons() < hosts {
		t.Errorf("got %d cordons, want one for each of %d nodes", watch.cordons(), hosts)
	}
	for _, h := range p.Simulated() {
		if s := h.Windows().Service("kubelet"); !strings.Contains(s.Command, desired.Versions) {
			t.Errorf("kubelet of %s: got command %s, want one below %s", h.Addr(), s.Command, desired.Versions)
		}
	}
	out, err := p.Command(t.Context(), "migrate", "--check", "--payload-dir", p.Payload)
	if err != nil || !strings.Contains(out, "ConfigMap "+api.DefaultNamespace+"/"+originalLock+": used only by the original operator: delete it") {
		t.Errorf("output of the check after the adoption (%v):\n%s", err, out)
	}
	p.remove(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: originalLock}})
}

// originalCluster creates the objects and files that the original operator leaves in a cluster and on its hosts, and runs the check before this operator
// is installed.
func originalCluster(ctx context.Context, t *testing.T, env *testenv.Env) error {
	t.Helper()
	in := metav1.ObjectMeta{Namespace: api.DefaultNamespace}
	named := func(name string) metav1.ObjectMeta { m := in; m.Name = name; return m }
	labels := map[string]string{"name": "windows-machine-config-operator"}
	operator := &appsv1.Deployment{
		ObjectMeta: named("windows-machine-config-operator"),
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "manager", Image: "example.com/windows-machine-config-rhel9-operator:v10.20.1",
				Env: []corev1.EnvVar{{Name: "SERVICES_LOG_FILE_SIZE", Value: "50M"}},
			}}}},
		},
	}
	key := &corev1.Secret{ObjectMeta: named(api.PrivateKeySecret), Data: map[string][]byte{api.PrivateKeyKey: env.Key}}
	instances := &corev1.ConfigMap{ObjectMeta: named(api.InstancesConfigMap), Data: map[string]string{}}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.DefaultNamespace}}, operator, key, instances,
		&corev1.ConfigMap{ObjectMeta: named("windows-services-" + originalVersion), Immutable: new(true), Data: map[string]string{"services": "[]", "files": "[]"}},
		&corev1.ConfigMap{ObjectMeta: named(originalLock)},
	}
	for i, h := range env.Hosts() {
		instances.Data[h.Address] = "username=" + testenv.User
		objects = append(objects, originalNode(h))
		if err := originalHost(ctx, h, env.Simulated()[i]); err != nil {
			return err
		}
	}
	for _, o := range objects {
		node, isNode := o.DeepCopyObject().(*corev1.Node) // the status is written separately
		if err := env.Client.Create(ctx, o); err != nil {
			return err
		}
		if !isNode {
			continue
		}
		empty := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		if err := env.Client.Status().Patch(ctx, node, client.MergeFrom(empty)); err != nil {
			return err
		}
	}
	if err := addHybridOverlay(ctx, env); err != nil {
		return err
	}
	return errors.Join(checkOriginal(ctx, t, env, operator), env.Client.Delete(ctx, key)) // Configure creates it
}

// addHybridOverlay configures the network that the original operator needs.
func addHybridOverlay(ctx context.Context, env *testenv.Env) error {
	network := &unstructured.Unstructured{}
	network.SetGroupVersionKind(schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "Network"})
	network.SetName("cluster")
	const overlay = `{"spec": {"defaultNetwork": {"ovnKubernetesConfig": {"hybridOverlayConfig": {"hybridClusterNetwork": [{"cidr": "10.132.0.0/14", "hostPrefix": 23}]}}}}}`
	return env.Client.Patch(ctx, network, client.RawPatch(types.MergePatchType, []byte(overlay)))
}

// checkOriginal runs the check while the original operator exists, and after it is deleted.
func checkOriginal(ctx context.Context, t *testing.T, env *testenv.Env, operator *appsv1.Deployment) error {
	t.Helper()
	check := func() string {
		out, err := env.Command(ctx, "migrate", "--check", "--payload-dir", env.Payload)
		return fmt.Sprintf("%s(%v)", out, err)
	}
	if out := check(); !strings.Contains(out, "the original operator is running: delete it first") || !strings.HasSuffix(out, "(exit status 3)") ||
		!strings.Contains(out, `SERVICES_LOG_FILE_SIZE=50M becomes spec.logs.size: "50M" of WindowsConfig`) {
		t.Errorf("output of the check with the original operator:\n%s", out)
	}
	if err := env.Client.Delete(ctx, operator); err != nil {
		return err
	}
	if out := check(); !strings.Contains(out, "3 nodes: each is drained and joined again") || !strings.HasSuffix(out, "(<nil>)") {
		t.Errorf("output of the check without the original operator:\n%s", out)
	}
	return nil
}

func originalNode(h testenv.Host) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        h.Name,
			Labels:      map[string]string{corev1.LabelOSStable: "windows", api.LabelOSID: "Windows", api.LabelBYOH: "true", api.LabelWorker: ""},
			Annotations: map[string]string{api.AnnotationVersion: originalVersion, api.AnnotationDesiredVersion: originalVersion},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.Address}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		},
	}
}

// originalHost creates services and files of the original operator on a host.
func originalHost(ctx context.Context, h testenv.Host, host *sim.Host) error {
	w := host.Windows()
	for _, name := range []string{
		`C:\k\kubelet.exe`, `C:\k\kube-log-runner.exe`, `C:\k\containerd\containerd.exe`, `C:\k\windows-instance-config-daemon.exe`,
		`C:\k\kubeconfig`, `C:\k\wicd-kubeconfig`, `C:\k\cni\config\cni.conf`, `C:\Temp\hns.psm1`,
	} {
		path := w.Disk().Local(name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("original"), 0o644)); err != nil {
			return err
		}
	}
	for _, s := range []desired.Service{
		{Name: "containerd", Command: `C:\k\containerd\containerd.exe --config C:\k\containerd\containerd_conf.toml --run-service`},
		{Name: "kubelet", Command: `C:\k\kube-log-runner.exe C:\k\kubelet.exe --config=C:\k\kubelet.conf --kubeconfig=C:\k\kubeconfig`, DependsOn: []string{"containerd"}},
		{Name: api.WICDService, Command: `C:\k\windows-instance-config-daemon.exe controller --windows-service --kubeconfig C:\k\wicd-kubeconfig`},
	} {
		s.Description = desired.ServiceDescription(s.Name)
		if _, err := w.Host().Services.Put(ctx, s); err != nil {
			return fmt.Errorf("creating service %s on %s: %w", s.Name, h.Name, err)
		}
	}
	return nil
}
