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

// machinesOf returns a client for the Machines of an API group in a namespace.
func machinesOf(as clients, group, version, in string) dynamic.ResourceInterface {
	return as.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "machines"}).Namespace(in)
}

// deleteByUID reads a Machine, and deletes it with its UID as a precondition.
func deleteByUID(ctx context.Context, machines dynamic.ResourceInterface, name string) error {
	got, err := machines.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return machines.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(got.GetUID()))})
}

// testMachines turns the cluster into an OpenShift cluster, and tests the operator's permissions for Machines.
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
			must(t, errOf(machinesOf(c.admin, "machine.openshift.io", "v1beta1", in).Create(t.Context(), machine, metav1.CreateOptions{})))
		}
	}
	for _, in := range []string{clusterAPI, "default"} {
		must(t, errOf(machinesOf(c.admin, "cluster.x-k8s.io", "v1beta2", in).Create(t.Context(), openshift.NewMachine(openshift.ClusterAPI, in, "m", nil), metav1.CreateOptions{})))
	}
	o := c.asOperator(t)
	own, foreign := machinesOf(o, "machine.openshift.io", "v1beta1", machineAPI), machinesOf(o, "machine.openshift.io", "v1beta1", "default")
	eventually(t, "", func(ctx context.Context) error { return errOf(own.Get(ctx, "m", metav1.GetOptions{})) })
	patch := func(m dynamic.ResourceInterface) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(m.Patch(ctx, "m", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
		}
	}
	watch := func(m dynamic.ResourceInterface) func(context.Context) error {
		return func(ctx context.Context) error {
			return watchErr(m.Watch(ctx, metav1.ListOptions{LabelSelector: "machine.openshift.io/os-id=Windows"}))
		}
	}
	all := machinesOf(o, "cluster.x-k8s.io", "v1beta2", "")
	tenants := machinesOf(o, "cluster.x-k8s.io", "v1beta2", "default")
	before := machinesOf(o, "cluster.x-k8s.io", "v1beta1", clusterAPI)
	try(t, []attempt{
		{"list Machines", "", func(ctx context.Context) error { return errOf(own.List(ctx, metav1.ListOptions{})) }},
		{"watch Machines", "", watch(own)},
		{"delete a Machine without its UID", "is deleted by its UID only", func(ctx context.Context) error { return own.Delete(ctx, "m", metav1.DeleteOptions{}) }},
		{"delete a Machine with the UID of a deleted one", "the UID in the precondition (gone) does not match", func(ctx context.Context) error {
			return own.Delete(ctx, "m", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("gone")})
		}},
		{"delete a Machine", "", func(ctx context.Context) error { return deleteByUID(ctx, own, "m") }},
		{"delete a Linux Machine", "deletes Windows Machines only", func(ctx context.Context) error { return deleteByUID(ctx, own, "tux") }},
		{"delete a Machine without operating system", "deletes Windows Machines only", func(ctx context.Context) error { return deleteByUID(ctx, own, "bare") }},
		{"read OpenShift's pull secret", "", func(ctx context.Context) error {
			return allowMissing(o.CoreV1().Secrets("openshift-config").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"watch OpenShift's pull secret", "", func(ctx context.Context) error {
			return watchErr(o.CoreV1().Secrets("openshift-config").Watch(ctx, byName("pull-secret")))
		}},
		{"read another Secret in the same namespace", forbidden, func(ctx context.Context) error {
			return errOf(o.CoreV1().Secrets("openshift-config").Get(ctx, "other", metav1.GetOptions{}))
		}},
		{"read a Secret with the name in another namespace", forbidden, func(ctx context.Context) error {
			return errOf(o.CoreV1().Secrets("default").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"change a Machine", forbidden, patch(own)},
		{"create a Machine", forbidden, func(ctx context.Context) error {
			return errOf(own.Create(ctx, openshift.NewMachine(openshift.MachineAPI, machineAPI, "x", nil), metav1.CreateOptions{}))
		}},
		{"delete all Machines at once", forbidden, func(ctx context.Context) error {
			return own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}},
		{"read a Machine in another namespace", forbidden, func(ctx context.Context) error { return errOf(foreign.Get(ctx, "m", metav1.GetOptions{})) }},
		{"delete a Machine in another namespace", forbidden, func(ctx context.Context) error { return foreign.Delete(ctx, "n", metav1.DeleteOptions{}) }},
		{"list Cluster API's Machines of all namespaces", forbidden, func(ctx context.Context) error { return errOf(all.List(ctx, metav1.ListOptions{})) }},
		{"watch Cluster API's Machines of all namespaces", forbidden, watch(all)},
		{"read a Machine of Cluster API in another namespace", forbidden, func(ctx context.Context) error { return errOf(tenants.Get(ctx, "m", metav1.GetOptions{})) }},
		{"watch Cluster API's Machines in OpenShift's namespace", "", watch(before)},
		{"read a Machine of Cluster API in the previous version", "", func(ctx context.Context) error { return errOf(before.Get(ctx, "m", metav1.GetOptions{})) }},
		{"delete a Machine of Cluster API", forbidden, func(ctx context.Context) error { return before.Delete(ctx, "m", metav1.DeleteOptions{}) }},
		{"change a Machine of Cluster API", forbidden, patch(before)},
	})
	for _, in := range []string{machineAPI, clusterAPI} {
		t.Run("user data in "+in, func(t *testing.T) { c.testUserData(t, o, in) })
	}
	secret := func(name string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: kind}
	}
	create := func(as clients, in string, s *corev1.Secret) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(as.CoreV1().Secrets(in).Create(ctx, s, metav1.CreateOptions{}))
		}
	}
	try(t, []attempt{
		{"create user data in another namespace", forbidden, create(o, "default", secret("windows-user-data", corev1.SecretTypeOpaque))},
		{"create a ServiceAccount token as the secrets of nodes", "allowed in " + namespace + " is windows-node-secrets or windows-settings-signing-key of type Opaque",
			create(o, namespace, secret("windows-node-secrets", corev1.SecretTypeServiceAccountToken))},
		{"create a ServiceAccount token as the signing key", "of type Opaque", create(o, namespace, secret("windows-settings-signing-key", corev1.SecretTypeServiceAccountToken))},
		{"create a signing key in the namespace of Machines", "allowed in " + machineAPI + " is windows-user-data of type Opaque",
			create(o, machineAPI, secret("windows-settings-signing-key", corev1.SecretTypeOpaque))},
		{"create another Secret in its own namespace", "allowed in " + namespace, create(o, namespace, secret("x", corev1.SecretTypeOpaque))},
		{"create any Secret as an administrator", "", create(c.admin, machineAPI, secret("anything", corev1.SecretTypeServiceAccountToken))},
	})
}

// testUserData tests the operator's permissions for Secrets in a namespace of Machines.
func (c *cluster) testUserData(t *testing.T, o clients, in string) {
	secrets := o.CoreV1().Secrets(in)
	data := func(name string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: kind}
	}
	must(t, errOf(c.admin.CoreV1().Secrets(in).Create(t.Context(), data("worker-user-data", ""), metav1.CreateOptions{})))
	const limited = "allowed in openshift-"
	try(t, []attempt{
		{"create another Secret", limited, func(ctx context.Context) error {
			return errOf(secrets.Create(ctx, data("x", ""), metav1.CreateOptions{}))
		}},
		{"create user data as a ServiceAccount token", limited, func(ctx context.Context) error {
			return errOf(secrets.Create(ctx, data("windows-user-data", corev1.SecretTypeServiceAccountToken), metav1.CreateOptions{}))
		}},
		{"create a Secret with a generated name", limited, func(ctx context.Context) error {
			return errOf(secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "windows-user-data"}}, metav1.CreateOptions{}))
		}},
		{"create user data", "", func(ctx context.Context) error {
			return errOf(secrets.Create(ctx, data("windows-user-data", ""), metav1.CreateOptions{}))
		}},
		{"list user data by name", "", func(ctx context.Context) error { return errOf(secrets.List(ctx, byName("windows-user-data"))) }},
		{"update user data", "", func(ctx context.Context) error {
			s, err := secrets.Get(ctx, "windows-user-data", metav1.GetOptions{})
			if err != nil {
				return err
			}
			s.Data = map[string][]byte{"userData": []byte("x")}
			return errOf(secrets.Update(ctx, s, metav1.UpdateOptions{}))
		}},
		{"delete user data", "", func(ctx context.Context) error {
			return secrets.Delete(ctx, "windows-user-data", metav1.DeleteOptions{})
		}},
		{"list all Secrets", forbidden, func(ctx context.Context) error { return errOf(secrets.List(ctx, metav1.ListOptions{})) }},
		{"read other user data", forbidden, func(ctx context.Context) error {
			return errOf(secrets.Get(ctx, "worker-user-data", metav1.GetOptions{}))
		}},
		{"delete other user data", forbidden, func(ctx context.Context) error {
			return secrets.Delete(ctx, "worker-user-data", metav1.DeleteOptions{})
		}},
	})
}
