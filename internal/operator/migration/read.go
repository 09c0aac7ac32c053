package migration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Names of the original operator (config/ and pkg/ of openshift/windows-machine-config-operator).
const (
	deployment        = "windows-machine-config-operator"
	lockConfigMap     = "windows-machine-config-operator-lock"
	hostKeysMap       = "windows-ssh-host-keys"
	daemonSecret      = "windows-instance-config-daemon"
	tlsSecret         = "windows-machine-config-operator-tls"
	upgradingLabel    = api.GroupName + "/upgrading"
	rebootRequired    = api.GroupName + "/reboot-required"
	csvKind           = "ClusterServiceVersion"
	logVariables      = "SERVICES_LOG_"
	argumentsVariable = "ARGS"
)

type reader struct {
	client.Reader
	cluster *Cluster
}

// Read reads a cluster. Unread has what could not be read; an error means that the context ended. Releases are this operator's, and server is the API
// server's version.
func Read(ctx context.Context, r client.Reader, namespace string, releases []kubeversions.Release, server string) (Cluster, error) {
	c := Cluster{Namespace: namespace, EntryFaults: map[string]string{}, Unread: map[string]string{}}
	if _, err := kubeversions.Choose(releases, []string{server}); err != nil {
		c.KubernetesFault = err.Error()
	}
	collector := reader{r, &c}
	collector.deployment(ctx)
	collector.network(ctx)
	collector.key(ctx)
	collector.entries(ctx)
	collector.nodes(ctx)
	collector.machines(ctx)
	collector.leftovers(ctx)
	return c, ctx.Err()
}

// get reads an object in the namespace; false means that it does not exist or could not be read.
func (r reader) get(ctx context.Context, name string, object client.Object, kind string) bool {
	err := r.Get(ctx, types.NamespacedName{Namespace: r.cluster.Namespace, Name: name}, object)
	if err != nil && !apierrors.IsNotFound(err) {
		r.cluster.Unread[kind+" "+r.cluster.Namespace+"/"+name] = err.Error()
	}
	return err == nil
}

// deployment distinguishes the original operator from this one, whose Deployment may have the same name.
func (r reader) deployment(ctx context.Context) {
	var d appsv1.Deployment
	if !r.get(ctx, deployment, &d, "Deployment") || len(d.Spec.Template.Spec.Containers) == 0 {
		return
	}
	container := d.Spec.Template.Spec.Containers[0]
	if slices.ContainsFunc(container.Args, func(a string) bool { return strings.HasPrefix(a, "--payload-dir") }) {
		r.cluster.Installed = true
		return
	}
	current := &Operator{Name: d.Namespace + "/" + d.Name, Environment: map[string]string{}}
	for _, owner := range d.OwnerReferences {
		if owner.Kind == csvKind {
			current.Manager = csvKind + " " + owner.Name
		}
	}
	for _, e := range container.Env {
		if e.Value != "" && (strings.HasPrefix(e.Name, logVariables) || e.Name == argumentsVariable) {
			current.Environment[e.Name] = e.Value
		}
	}
	r.cluster.Operator = current
}

// network reports whether this operator could work with the pod network.
func (r reader) network(ctx context.Context) {
	err := r.checkNetwork(ctx)
	switch {
	case errors.Is(err, desired.ErrNetwork):
		r.cluster.NetworkFault = err.Error()
	case err != nil:
		r.cluster.Unread["Pod network"] = err.Error()
	}
}

func (r reader) checkNetwork(ctx context.Context) error {
	platform, err := cluster.ReadPlatform(ctx, r)
	if err != nil {
		return err
	}
	var config v1alpha1.WindowsConfig // it may exist before the operator is installed
	err = r.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config)
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return err
	}
	current, err := cluster.Read(ctx, r, cluster.Connection{}, r.cluster.Namespace, config.Spec)
	if err != nil {
		return err
	}
	if current.Network, err = cluster.ReadNetwork(ctx, r, platform, config.Spec.Network); err != nil {
		return err
	}
	return desired.CheckNetwork(desired.Inputs{Cluster: current, Config: config.Spec})
}

// key reads the SSH key and keeps only the hash of its public half.
func (r reader) key(ctx context.Context) {
	var secret corev1.Secret
	if !r.get(ctx, api.PrivateKeySecret, &secret, "Secret") {
		if _, unread := r.cluster.Unread["Secret "+r.cluster.Namespace+"/"+api.PrivateKeySecret]; !unread {
			r.cluster.KeyFault = "does not exist: create it with key " + api.PrivateKeyKey
		}
		return
	}
	signer, err := remote.ParsePrivateKey(secret.Data[api.PrivateKeyKey])
	if err != nil {
		r.cluster.KeyFault = err.Error()
		return
	}
	// Same as the original operator's annotation pub-key-hash: the authorized_keys line without its newline.
	sum := sha256.Sum256(bytes.TrimSuffix(ssh.MarshalAuthorizedKey(signer.PublicKey()), []byte("\n")))
	r.cluster.Key = hex.EncodeToString(sum[:])
}

func (r reader) entries(ctx context.Context) {
	var cm corev1.ConfigMap
	if r.get(ctx, api.InstancesConfigMap, &cm, "ConfigMap") {
		r.cluster.Entries, r.cluster.EntryFaults = source.CheckEntries(cm.Data, cm.BinaryData)
	}
}

func (r reader) nodes(ctx context.Context) {
	var list corev1.NodeList
	if err := r.List(ctx, &list, client.MatchingLabels{corev1.LabelOSStable: "windows"}); err != nil {
		r.cluster.Unread["Nodes"] = err.Error()
		return
	}
	for i := range list.Items {
		r.cluster.Nodes = append(r.cluster.Nodes, nodeOf(&list.Items[i]))
	}
}

func nodeOf(n *corev1.Node) Node {
	current := Node{
		Name: n.Name, Version: n.Annotations[api.AnnotationVersion], DesiredVersion: n.Annotations[api.AnnotationDesiredVersion],
		Named: n.Labels[api.LabelBYOH] == "true", KeyHash: n.Annotations[api.AnnotationPubKeyHash],
		Ready: nodestate.IsReady(n), Cordoned: n.Spec.Unschedulable, Upgrading: n.Labels[upgradingLabel] == "true",
	}
	_, current.RebootDue = n.Annotations[rebootRequired]
	for _, a := range n.Status.Addresses {
		current.Addresses = append(current.Addresses, a.Address)
	}
	if key, err := base64.StdEncoding.DecodeString(n.Annotations[api.AnnotationSSHHostKey]); err == nil && len(key) > 0 {
		if public, err := ssh.ParsePublicKey(key); err == nil {
			current.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
		}
	}
	return current
}

func (r reader) machines(ctx context.Context) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "MachineList"})
	err := r.List(ctx, list, client.MatchingLabels{api.LabelMachineOS: "Windows"})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		r.cluster.Unread["Machines"] = err.Error()
		return
	}
	for i := range list.Items {
		m, err := machines.Read(&list.Items[i])
		switch {
		case err != nil:
			r.cluster.Unread["Machine "+machines.ID(m.Namespace, m.Name)] = err.Error()
		case !m.Ignored:
			r.cluster.Machines = append(r.cluster.Machines, machines.ID(m.Namespace, m.Name))
		}
	}
}

// leftovers finds objects that this operator neither reads nor deletes. ConfigMaps windows-services-<version> are not among them: the admission
// policy windows-services allows only the operator to write them, and they are deleted with the namespace.
func (r reader) leftovers(ctx context.Context) {
	for _, name := range []string{lockConfigMap, hostKeysMap} {
		if r.get(ctx, name, &corev1.ConfigMap{}, "ConfigMap") {
			r.cluster.Leftovers = append(r.cluster.Leftovers, fmt.Sprintf("ConfigMap %s/%s", r.cluster.Namespace, name))
		}
	}
	for _, name := range []string{daemonSecret, tlsSecret} {
		if r.get(ctx, name, &corev1.Secret{}, "Secret") {
			r.cluster.Leftovers = append(r.cluster.Leftovers, fmt.Sprintf("Secret %s/%s", r.cluster.Namespace, name))
		}
	}
}
