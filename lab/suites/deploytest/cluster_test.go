//go:build linux

package deploytest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

const (
	deployDir = "../../../deploy"
	namespace = "openshift-windows-machine-config-operator"
	group     = "windowsmachineconfig.openshift.io"
)

// forbidden is the API server's message if RBAC does not permit something.
const forbidden = "is forbidden: User"

// cluster is a control plane with the manifests applied, the user's objects, and the nodes win-1, win-2 and linux-1.
type cluster struct {
	minor   string // minor version of Kubernetes, "" for the newest one
	control *lab.ControlPlane
	config  *rest.Config
	admin   clients
}

// clients are the clients of one user.
type clients struct {
	kubernetes.Interface
	dynamic dynamic.Interface
}

func newClients(t *testing.T, config *rest.Config) clients {
	t.Helper()
	typed, err := kubernetes.NewForConfig(config)
	must(t, err)
	untyped, err := dynamic.NewForConfig(config)
	must(t, err)
	return clients{typed, untyped}
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	return startClusterOf(t, "")
}

// startClusterOf starts a cluster of a minor version of Kubernetes. "" is the newest one.
func startClusterOf(t *testing.T, minor string) *cluster {
	t.Helper()
	var o lab.ControlPlaneOptions
	if minor != "" {
		o.Kubernetes = payloadtest.Version(t, "../../..", "kubelet-"+minor)
	}
	cp, err := lab.StartControlPlane(t.Context(), o)
	must(t, err)
	t.Cleanup(cp.Stop)
	c := &cluster{minor: minor, control: cp, config: cp.RESTConfig(), admin: newClients(t, cp.RESTConfig())}
	for range 2 { // applying again simulates an upgrade
		must(t, manifest.Apply(t.Context(), c.config, deployDir))
	}
	c.createObjects(t)
	c.waitForPolicies(t)
	return c
}

// as returns clients that impersonate a user. The API server adds system:authenticated to the groups.
func (c *cluster) as(t *testing.T, user string, groups ...string) clients {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return newClients(t, config)
}

func (c *cluster) asAccount(t *testing.T, name string) clients {
	t.Helper()
	return c.as(t, "system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

func (c *cluster) asOperator(t *testing.T) clients {
	t.Helper()
	return c.asAccount(t, "windows-machine-config-operator")
}

func (c *cluster) asWICD(t *testing.T, node string) clients {
	t.Helper()
	return c.as(t, "system:wicd-node:"+node, "system:wicd-nodes")
}

func (c *cluster) createObjects(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for name, os := range map[string]string{"win-1": "windows", "win-2": "windows", "linux-1": "linux"} {
		must(t, errOf(c.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Labels:      map[string]string{"kubernetes.io/os": os},
				Annotations: map[string]string{"example.com/other": "x", group + "/desired-version": "1"},
			},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}}},
		}, metav1.CreateOptions{})))
	}
	must(t, errOf(c.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-bare"}}, metav1.CreateOptions{})))
	for _, name := range []string{"cloud-private-key", "other"} {
		must(t, errOf(c.admin.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})))
	}
	for _, name := range []string{"windows-instances", "other"} {
		must(t, errOf(c.admin.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})))
	}
}

// waitForPolicies waits until roles and policies are in effect.
func (c *cluster) waitForPolicies(t *testing.T) {
	t.Helper()
	operator := c.asOperator(t)
	eventually(t, "", func(ctx context.Context) error {
		return errOf(operator.CoreV1().Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
	})
	eventually(t, "denied request", func(ctx context.Context) error {
		return errOf(c.admin.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("windows-services-0"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	})
	wicd := c.asWICD(t, "nobody")
	_, pem := newRequest(t, "system:wicd-node:nobody", "system:wicd-nodes")
	eventually(t, "denied request", func(ctx context.Context) error {
		return patchNode(ctx, wicd, "win-2", annotate(group+"/version", "1"))
	})
	eventually(t, "denied request", func(ctx context.Context) error {
		return setCondition(ctx, wicd, "win-2", healthCondition("x"))
	})
	eventually(t, "denied request", func(ctx context.Context) error {
		return createEvent(ctx, wicd, eventOf("win-2"))
	})
	eventually(t, "denied request", func(ctx context.Context) error {
		_, err := createRequest(ctx, wicd, "kubernetes.io/kubelet-serving", pem, "digital signature", "server auth")
		return err
	})
}

// eventually retries a request until it fails with an error that contains want, or until it succeeds if want is "".
func eventually(t *testing.T, want string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := do(ctx)
		if want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("timed out: last error %v, want %q", err, want)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// attempt is a request to the API server. want is a part of the expected error, or "" if the request must succeed.
type attempt struct {
	name string
	want string
	do   func(context.Context) error
}

// try runs each attempt in a subtest.
func try(t *testing.T, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := a.do(ctx)
			switch {
			case a.want == "" && err != nil:
				t.Errorf("got error %v, want success", err)
			case a.want != "" && err == nil:
				t.Errorf("the request succeeded, want an error with %q", a.want)
			case a.want != "" && !strings.Contains(err.Error(), a.want):
				t.Errorf("got error %v, want one with %q", err, a.want)
			}
		})
	}
}

// patchNode sends a merge patch for a Node.
func patchNode(ctx context.Context, as clients, name string, patch map[string]any, subresources ...string) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = as.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{}, subresources...)
	return err
}

func annotate(key string, value any) map[string]any {
	return metadata("annotations", map[string]any{key: value})
}

func metadata(field string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{field: value}}
}

// must fails the test immediately if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf returns only the error of a call.
func errOf[T any](_ T, err error) error { return err }

// watchErr stops a watch, and returns the error of starting it.
func watchErr(w watch.Interface, err error) error {
	if err == nil {
		w.Stop()
	}
	return err
}

// byName selects one object by its name, like the operator's cache.
func byName(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fmt.Sprintf("metadata.name=%s", name)}
}
