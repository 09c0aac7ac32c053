//go:build linux

package deploytest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/cluster/openshift"
)

const (
	machineAPI = "openshift-machine-api"
	clusterAPI = "openshift-cluster-api"
)

// machinesOf is a client for the Machines of an API group in a namespace.
func machinesOf(as clients, group, version, in string) dynamic.ResourceInterface {
	return as.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "machines"}).Namespace(in)
}

// deleteSeen deletes the existing Machine.
func deleteSeen(ctx context.Context, machines dynamic.ResourceInterface, name string) error {
	got, err := machines.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return machines.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(got.GetUID()))})
}

// testMachines turns the cluster into OpenShift, and tests the operator's permissions for Machines.
func (c *cluster) testMachines(t *testing.T) {
	must(t, openshift.Install(t.Context(), c.config, "../../..", "None"))
	for _, dir := range []string{deployDir + "/openshift", deployDir + "/openshift/cluster-api"} {
		must(t, manifest.Apply(t.Context(), c.config, dir))
	}
	for _, in := range []string{machineAPI, "default"} {
		for name, system := range map[string]string{"m": "Windows", "n": "Windows", "tux": "Linux", "bare": ""} {
			var labels map[string]string
			if system != "" {
				labels = map[string]string{"machine.openshift.io/os-id": system}
			}
			machine := openshift.NewMachine(openshift.MachineAPI, in, name, labels)
			must(t, drop(machinesOf(c.admin, "machine.openshift.io", "v1beta1", in).Create(t.Context(), machine, metav1.CreateOptions{})))
		}
	}
	for _, in := range []string{clusterAPI, "default"} {
		must(t, drop(machinesOf(c.admin, "cluster.x-k8s.io", "v1beta2", in).Create(t.Context(), openshift.NewMachine(openshift.ClusterAPI, in, "m", nil), metav1.CreateOptions{})))
	}
	o := c.asOperator(t)
	own, foreign := machinesOf(o, "machine.openshift.io", "v1beta1", machineAPI), machinesOf(o, "machine.openshift.io", "v1beta1", "default")
	eventually(t, "", func(ctx context.Context) error { return drop(own.Get(ctx, "m", metav1.GetOptions{})) })
	patch := func(m dynamic.ResourceInterface) func(context.Context) error {
		return func(ctx context.Context) error {
			return drop(m.Patch(ctx, "m", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
		}
	}
	watch := func(m dynamic.ResourceInterface) func(context.Context) error {
		return func(ctx context.Context) error {
			return watched(m.Watch(ctx, metav1.ListOptions{LabelSelector: "machine.openshift.io/os-id=Windows"}))
		}
	}
	all := machinesOf(o, "cluster.x-k8s.io", "v1beta2", "")
	tenants := machinesOf(o, "cluster.x-k8s.io", "v1beta2", "default")
	before := machinesOf(o, "cluster.x-k8s.io", "v1beta1", clusterAPI)
	try(t, []attempt{
		{"lists Machines", "", func(ctx context.Context) error { return drop(own.List(ctx, metav1.ListOptions{})) }},
		{"watches Machines", "", watch(own)},
		{"replaces a Machine without looking at it", "is deleted by its UID only", func(ctx context.Context) error { return own.Delete(ctx, "m", metav1.DeleteOptions{}) }},
		{"replaces a Machine that has gone since", "the UID in the precondition (gone) does not match", func(ctx context.Context) error {
			return own.Delete(ctx, "m", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("gone")})
		}},
		{"replaces a Machine", "", func(ctx context.Context) error { return deleteSeen(ctx, own, "m") }},
		{"deletes a Linux Machine", "deletes Windows Machines only", func(ctx context.Context) error { return deleteSeen(ctx, own, "tux") }},
		{"deletes a Machine without a system", "deletes Windows Machines only", func(ctx context.Context) error { return deleteSeen(ctx, own, "bare") }},
		{"reads OpenShift's pull secret", "", func(ctx context.Context) error {
			return found(o.CoreV1().Secrets("openshift-config").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"watches OpenShift's pull secret", "", func(ctx context.Context) error {
			return watched(o.CoreV1().Secrets("openshift-config").Watch(ctx, byName("pull-secret")))
		}},
		{"reads another Secret beside it", forbidden, func(ctx context.Context) error {
			return drop(o.CoreV1().Secrets("openshift-config").Get(ctx, "other", metav1.GetOptions{}))
		}},
		{"reads a Secret of that name elsewhere", forbidden, func(ctx context.Context) error {
			return drop(o.CoreV1().Secrets("default").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"changes a Machine", forbidden, patch(own)},
		{"makes a Machine", forbidden, func(ctx context.Context) error {
			return drop(own.Create(ctx, openshift.NewMachine(openshift.MachineAPI, machineAPI, "x", nil), metav1.CreateOptions{}))
		}},
		{"deletes all Machines at once", forbidden, func(ctx context.Context) error {
			return own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}},
		{"reads a Machine elsewhere", forbidden, func(ctx context.Context) error { return drop(foreign.Get(ctx, "m", metav1.GetOptions{})) }},
		{"deletes a Machine elsewhere", forbidden, func(ctx context.Context) error { return foreign.Delete(ctx, "n", metav1.DeleteOptions{}) }},
		{"lists Cluster API's Machines of all namespaces", forbidden, func(ctx context.Context) error { return drop(all.List(ctx, metav1.ListOptions{})) }},
		{"watches them", forbidden, watch(all)},
		{"reads one of another namespace", forbidden, func(ctx context.Context) error { return drop(tenants.Get(ctx, "m", metav1.GetOptions{})) }},
		{"watches those of OpenShift's namespace", "", watch(before)},
		{"reads one in the version before", "", func(ctx context.Context) error { return drop(before.Get(ctx, "m", metav1.GetOptions{})) }},
		{"deletes one", forbidden, func(ctx context.Context) error { return before.Delete(ctx, "m", metav1.DeleteOptions{}) }},
		{"changes one", forbidden, patch(before)},
	})
	for _, in := range []string{machineAPI, clusterAPI} {
		t.Run("user data in "+in, func(t *testing.T) { c.testUserData(t, o, in) })
	}
	secret := func(name string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: kind}
	}
	create := func(as clients, in string, s *corev1.Secret) func(context.Context) error {
		return func(ctx context.Context) error {
			return drop(as.CoreV1().Secrets(in).Create(ctx, s, metav1.CreateOptions{}))
		}
	}
	try(t, []attempt{
		{"user data in another namespace", forbidden, create(o, "default", secret("windows-user-data", corev1.SecretTypeOpaque))},
		{"the token of an account in its own namespace", "allowed in " + namespace + " is windows-node-secrets or windows-settings-signing-key of type Opaque",
			create(o, namespace, secret("windows-node-secrets", corev1.SecretTypeServiceAccountToken))},
		{"the same under the name of the signing key", "of type Opaque", create(o, namespace, secret("windows-settings-signing-key", corev1.SecretTypeServiceAccountToken))},
		{"a signing key where Machines are", "allowed in " + machineAPI + " is windows-user-data of type Opaque",
			create(o, machineAPI, secret("windows-settings-signing-key", corev1.SecretTypeOpaque))},
		{"another Secret in its own namespace", "allowed in " + namespace, create(o, namespace, secret("x", corev1.SecretTypeOpaque))},
		{"somebody else's Secret", "", create(c.admin, machineAPI, secret("anything", corev1.SecretTypeServiceAccountToken))},
	})
}

// testUserData tests the operator's permissions for Secrets in a namespace of Machines.
func (c *cluster) testUserData(t *testing.T, o clients, in string) {
	secrets := o.CoreV1().Secrets(in)
	data := func(name string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: kind}
	}
	must(t, drop(c.admin.CoreV1().Secrets(in).Create(t.Context(), data("worker-user-data", ""), metav1.CreateOptions{})))
	const limited = "allowed in openshift-"
	try(t, []attempt{
		{"is another's", limited, func(ctx context.Context) error {
			return drop(secrets.Create(ctx, data("x", ""), metav1.CreateOptions{}))
		}},
		{"is the token of an account", limited, func(ctx context.Context) error {
			return drop(secrets.Create(ctx, data("windows-user-data", corev1.SecretTypeServiceAccountToken), metav1.CreateOptions{}))
		}},
		{"has no name yet", limited, func(ctx context.Context) error {
			return drop(secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "windows-user-data"}}, metav1.CreateOptions{}))
		}},
		{"is made", "", func(ctx context.Context) error {
			return drop(secrets.Create(ctx, data("windows-user-data", ""), metav1.CreateOptions{}))
		}},
		{"is listed by name", "", func(ctx context.Context) error { return drop(secrets.List(ctx, byName("windows-user-data"))) }},
		{"is corrected", "", func(ctx context.Context) error {
			s, err := secrets.Get(ctx, "windows-user-data", metav1.GetOptions{})
			if err != nil {
				return err
			}
			s.Data = map[string][]byte{"userData": []byte("x")}
			return drop(secrets.Update(ctx, s, metav1.UpdateOptions{}))
		}},
		{"is removed", "", func(ctx context.Context) error {
			return secrets.Delete(ctx, "windows-user-data", metav1.DeleteOptions{})
		}},
		{"is listed with all others", forbidden, func(ctx context.Context) error { return drop(secrets.List(ctx, metav1.ListOptions{})) }},
		{"of others is read", forbidden, func(ctx context.Context) error {
			return drop(secrets.Get(ctx, "worker-user-data", metav1.GetOptions{}))
		}},
		{"of others is removed", forbidden, func(ctx context.Context) error {
			return secrets.Delete(ctx, "worker-user-data", metav1.DeleteOptions{})
		}},
	})
}
