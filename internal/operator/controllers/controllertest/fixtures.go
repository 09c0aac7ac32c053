// Package controllertest contains what the tests of several controllers share: a plain cluster, keys, objects and an event recorder. No program uses
// it.
package controllertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/deploy"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

// Recorder keeps events as lines of type, reason, object and note.
type Recorder struct{ Events []string }

// Eventf implements events.EventRecorder.
func (r *Recorder) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	name := about.(client.Object).GetName()
	r.Events = append(r.Events, strings.Join([]string{kind, reason, fmt.Sprintf("%T", about), name, fmt.Sprintf(note, args...)}, " "))
}

func Scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// PlainCluster returns the objects that the operator reads in a plain cluster with a network.
func PlainCluster() []client.Object {
	object := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "the-uid"}
	}
	config := &v1alpha1.WindowsConfig{ObjectMeta: object("", api.WindowsConfigName)}
	config.Spec.Network = v1alpha1.NetworkSpec{
		Provider: v1alpha1.NetworkCustom, Custom: &v1alpha1.CustomNetwork{CNIConfig: `{"name": "n", "type": "t"}`},
	}
	port := int32(6443)
	return []client.Object{
		config,
		&corev1.Namespace{ObjectMeta: object("", "kube-system")},
		&corev1.ConfigMap{ObjectMeta: object("ns", "kube-root-ca.crt"), Data: map[string]string{"ca.crt": "root"}},
		&corev1.ConfigMap{ObjectMeta: object("kube-system", "extension-apiserver-authentication"), Data: map[string]string{"client-ca-file": "clients"}},
		&corev1.ConfigMap{ObjectMeta: object("kube-system", "kubelet-config"), Data: map[string]string{"kubelet": "clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local"}},
		&networkingv1.ServiceCIDR{ObjectMeta: object("", "kubernetes"), Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: object("default", "kubernetes"), Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.3.0.5"}}},
			Ports: []discoveryv1.EndpointPort{{Port: &port}},
		},
	}
}

// Instance returns an instance of a source, with the finalizer that a join adds.
func Instance(name, source, machine, address string) *v1alpha1.WindowsInstance {
	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name), Finalizers: []string{api.Finalizer}, Labels: map[string]string{api.LabelSource: source},
	}, Spec: v1alpha1.WindowsInstanceSpec{Address: address, Username: "Administrator"}}
	if machine != "" {
		i.Annotations = map[string]string{api.AnnotationMachine: machine}
	}
	return i
}

func Key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// SSHKey returns the n-th SSH key as stored in its Secret.
func SSHKey(t *testing.T, n byte) []byte {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	block, err := ssh.MarshalPrivateKey(ed25519.NewKeyFromSeed(seed), "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

// ClusterID is the UID of namespace kube-system in PlainCluster.
const ClusterID = "the-uid"

// Guards returns the policies of deploy/admission.yaml and a cluster in which they are applied.
func Guards(t *testing.T) ([]deploy.Guard, client.WithWatch) {
	t.Helper()
	guards, err := deploy.Guards()
	if err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(Scheme(t))
	for i := range guards {
		b = b.WithObjects(guards[i].Policy.DeepCopy(), guards[i].Binding.DeepCopy())
	}
	return guards, b.Build()
}

// SigningKey returns the n-th key for signing settings.
func SigningKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

// SignedBy returns data signed with the n-th key.
func SignedBy(t *testing.T, n byte, name string, data map[string]string) map[string]string {
	t.Helper()
	data, err := desired.Sign(data, desired.Statement{Cluster: ClusterID, Name: name, Serial: time.Now().UnixMilli()}, SigningKey(n))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// SigningSecret returns the Secret with the n-th signing key.
func SigningSecret(t *testing.T, n byte) *corev1.Secret {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(SigningKey(n))
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.SigningKeySecret},
		Data:       map[string][]byte{api.SigningKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})},
	}
}

// PublishedFor returns the published settings of a version.
func PublishedFor(t *testing.T, version string, change func(*desired.Node)) *corev1.ConfigMap {
	t.Helper()
	node := desired.Node{Version: version, Payload: []desired.PayloadFile{
		{Path: "kubelet.exe", SHA256: strings.Repeat("a", 64)}, {Path: "windows_exporter.exe", SHA256: strings.Repeat("b", 64)},
	}}
	change(&node)
	var sums []string
	for _, f := range node.Payload {
		sums = append(sums, f.SHA256)
	}
	node.Digest = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(sums, " "))))
	for _, f := range node.Payload { // services run their programs from the payload's folder
		node.Services = append(node.Services, desired.Service{Name: strings.TrimSuffix(f.Path, ".exe"), Command: desired.VersionFolder(node.Digest) + `\` + f.Path})
	}
	data, err := node.Data()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.ServicesConfigMapPrefix + version, Annotations: map[string]string{api.AnnotationSettings: "of-" + version}},
		Data:       SignedBy(t, 0, api.ServicesConfigMapPrefix+version, data),
	}
}

// CertificateRequest returns a kubelet's certificate request for its name and optional DNS names.
func CertificateRequest(t *testing.T, name string, dnsNames ...string) []byte {
	t.Helper()
	return EncodeRequest(t, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}, DNSNames: dnsNames,
	})
}

func EncodeRequest(t *testing.T, request *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, request, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// Node returns a Linux node.
func Node(name, address string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}},
	}
}

func SetNodeCondition(node *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus, message string) {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == kind {
			if c.Status != status {
				c.LastTransitionTime = metav1.Now()
			}
			c.Status, c.Message = status, message
			return
		}
	}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Message: message, LastTransitionTime: metav1.Now()})
}

// OrphanNode returns a silent Windows Node without a WindowsInstance.
func OrphanNode(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	SetNodeCondition(node, corev1.NodeReady, corev1.ConditionUnknown, "no heartbeat")
	return node
}

// Cluster returns a plain cluster with a network and further objects.
func Cluster(t *testing.T, more ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(Scheme(t)).WithStatusSubresource(&v1alpha1.WindowsConfig{}).WithObjects(append(PlainCluster(), more...)...).Build()
}

// IncompleteGuards returns a cluster that lacks the binding of one admission policy.
func IncompleteGuards(t *testing.T) ([]deploy.Guard, client.WithWatch) {
	t.Helper()
	guards, c := Guards(t)
	if err := c.Delete(t.Context(), guards[0].Binding.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	return guards, c
}

// Kubelets returns payload files: a kubelet of each version, such as v1.34.4, in the group of its minor version.
func Kubelets(versions ...string) []payload.File {
	var files []payload.File
	for _, v := range versions {
		files = append(files, payload.File{
			Path: "kubelet.exe", Component: "kubelet", Version: v, Group: payload.Kubernetes(v[1:strings.LastIndex(v, ".")]),
			SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(v))), Size: 1,
		})
	}
	return files
}

// Releases returns the releases of a payload in a cluster with one API server version.
func Releases(t *testing.T, operator string, content payload.Manifest, server string) *clusterversion.Releases {
	t.Helper()
	servers := func(context.Context) []string { return []string{server} }
	releases := clusterversion.New(kubeversions.Of(operator, content), servers, func(context.Context) ([]string, error) { return nil, nil })
	releases.Update(t.Context())
	return releases
}

// Version returns the version of the release that nodes get.
func Version(releases *clusterversion.Releases) string {
	current, _ := releases.Current()
	return current.Version
}
