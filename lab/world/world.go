//go:build linux

// Package world is a whole cluster to try the operator in: the lab's control plane, the operator installed from the
// manifests that users install and running under its own ServiceAccount, and hosts to join: real Windows programs on
// Wine, or simulated ones. The demo, the tests of the lab and the measurements use it.
package world

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/manifest"
)

// User is the account on every host.
const User = "Administrator"

// Options are the choices for a World.
type Options struct {
	// WineHosts and SimulatedHosts are how many hosts of each kind there are; one of the two is zero.
	WineHosts, SimulatedHosts int
	// WholePayload gives Wine hosts all that users' hosts get, as well compressed, not only what a Ready node needs: it takes longer to build.
	WholePayload bool
	// Pods gives Wine hosts what it takes to run pods: containerd's shim, a pod network, and a registry with images that
	// the settings lead to. See WinWebserver.
	Pods bool
	// Overlay connects the pods of Wine hosts by OVN-Kubernetes' hybrid overlay, with a kube-proxy on each host. Something plays
	// OVN-Kubernetes' master.
	Overlay bool
	// Flannel connects the pods of Wine hosts by Flannel, with a kube-proxy on each host.
	Flannel bool
	// Components are further ones, by name, that Wine hosts get besides what a Ready node needs.
	Components []string
	// ProgramBytes is the size of each program that simulated hosts get, WICD aside; 64 KiB when 0. Real programs
	// have the size they have.
	ProgramBytes int
	// Log gets a line for what is done and takes long.
	Log io.Writer
}

// World is a cluster with the operator in it. All of it ends with Close, or with the process.
type World struct {
	// Lab has the control plane and the Wine hosts.
	Lab *lab.Lab
	// Client is a cluster administrator's, and so are Clients, for the kinds that every cluster has.
	Client  client.WithWatch
	Clients kubernetes.Interface
	// Operator runs.
	Operator *Operator
	// Payload is the folder with what the operator carries for hosts.
	Payload string
	// Kubeconfig is the path of an administrator's kubeconfig.
	Kubeconfig string
	// Key is the private key that logs in to every host, in OpenSSH form.
	Key []byte

	hosts      []Host
	simulated  []*sim.Host
	addresses  *lab.Addresses // of simulated hosts
	authorized ssh.PublicKey  // that of Key
	pods       bool
	images     *lab.Registry // of pods
	overlay    bool
	flannel    bool
	stop       context.CancelFunc         // ends what plays OVN-Kubernetes
	mirrors    []v1alpha1.RegistryMirrors // of the images of pods
	folder     *lab.Folder
}

// Host is a host that can join.
type Host struct {
	// Name is the host's name in lower case, as its node will have it.
	Name string
	// Address and Port are where SSH answers.
	Address string
	Port    int32
}

// sshPort is where SSH answers on hosts.
const sshPort = 22

// dialed is address and port.
func (h Host) dialed() string { return net.JoinHostPort(h.Address, strconv.Itoa(int(h.Port))) }

// Instance is what a user writes to announce the host.
func (h Host) Instance() *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: h.Name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.Address, Port: h.Port, Username: User},
	}
}

// Open brings everything up but announces no host.
func Open(ctx context.Context, o Options) (*World, error) {
	w := &World{}
	if err := w.open(ctx, o); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *World) open(ctx context.Context, o Options) (err error) {
	if o.WineHosts == 0 {
		if w.addresses, err = lab.OpenAddresses(ctx, o.Log); err != nil {
			return err
		}
	}
	if w.folder, err = lab.NewFolder(ctx, "world", o.Log); err != nil {
		return err
	}
	signer, key, err := NewKey()
	if err != nil {
		return err
	}
	w.authorized, w.Key = signer.PublicKey(), key
	if w.Payload, err = w.payload(ctx, o); err != nil {
		return fmt.Errorf("building the payload: %w", err)
	}
	w.Lab, err = lab.Open(ctx, lab.Options{
		Hosts: names(o.WineHosts), User: User, AuthorizedKeys: ssh.MarshalAuthorizedKey(w.authorized), Progress: o.Log,
	})
	if err != nil {
		return err
	}
	if err := w.startHosts(o); err != nil {
		return err
	}
	if w.pods = o.Pods && o.WineHosts > 0; w.pods {
		if err := w.startImages(ctx); err != nil {
			return err
		}
	}
	if err := w.connect(); err != nil {
		return err
	}
	w.flannel = o.Flannel
	if w.overlay = o.Overlay; w.overlay {
		var playing context.Context
		playing, w.stop = context.WithCancel(context.Background())
		if err := playOVN(playing, w.Client, w.Clients, o.Log); err != nil {
			return err
		}
	}
	return w.install(ctx, o.Log)
}

// NewKey makes a key pair as the user of the operator would, and returns it, and what the Secret has of it.
func NewKey() (signer ssh.Signer, text []byte, err error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, nil, err
	}
	signer, err = ssh.NewSignerFromKey(private)
	return signer, pem.EncodeToMemory(block), err
}

func names(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("win-%d", i+1))
	}
	return list
}

// connect makes the administrator's clients and kubeconfig.
func (w *World) connect() error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	var err error
	if w.Client, err = client.NewWithWatch(w.Lab.ControlPlane.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if w.Clients, err = kubernetes.NewForConfig(w.Lab.ControlPlane.RESTConfig()); err != nil {
		return err
	}
	w.Kubeconfig = filepath.Join(w.folder.Path, "kubeconfig")
	return w.Lab.ControlPlane.Kubeconfig(w.Kubeconfig)
}

// install applies what users apply, and starts the operator as its Deployment would.
func (w *World) install(ctx context.Context, progress io.Writer) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	if err := w.publish(ctx); err != nil {
		return err
	}
	if err := manifest.Apply(ctx, w.Lab.ControlPlane.RESTConfig(), filepath.Join(root, "deploy")); err != nil {
		return fmt.Errorf("installing the operator: %w", err)
	}
	kubeconfig := filepath.Join(w.folder.Path, "operator.kubeconfig")
	err = w.Lab.ControlPlane.KubeconfigFor(ctx, api.DefaultNamespace, OperatorAccount, kubeconfig)
	if err != nil {
		return fmt.Errorf("making the operator's kubeconfig: %w", err)
	}
	w.Operator, err = newOperator(ctx, operatorOptions{
		root: root, kubeconfig: kubeconfig, payload: w.Payload, log: filepath.Join(w.folder.Path, "operator.log"), program: filepath.Join(w.folder.Path, "wmco"),
	}, progress)
	if err != nil {
		return err
	}
	return w.Operator.Start()
}

// publish tells where the API server is, as kubeadm does. An API server on 127.0.0.1, that of simulated hosts, does
// not announce itself.
func (w *World) publish(ctx context.Context) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: w.Lab.ControlPlane.RESTConfig().Host, CertificateAuthorityData: w.Lab.ControlPlane.CA()}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return w.Client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": string(text)},
	})
}

// Hosts are the hosts that can join.
func (w *World) Hosts() []Host { return w.hosts }

// Configure does what an administrator does first: the Secret with the key, and the settings of the pod network.
func (w *World) Configure(ctx context.Context) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.PrivateKeySecret},
		Data:       map[string][]byte{api.PrivateKeyKey: w.Key},
	}
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Network.Provider = v1alpha1.NetworkCustom
	config.Spec.Network.Custom = &v1alpha1.CustomNetwork{CNIConfig: bridgeCNIConfig}
	if w.pods {
		config.Spec.Network.Custom.CNIConfig, config.Spec.Registries.Mirrors = podCNIConfig, w.mirrors
		// The drives of the hosts are folders of this machine, whose disk may be fuller than a host's.
		config.Spec.Kubelet.EvictionHard = map[string]string{"nodefs.available": "1Gi", "imagefs.available": "1Gi"}
	}
	if w.overlay {
		config.Spec.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
	}
	if w.flannel {
		config.Spec.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}
		if err := configureFlannel(ctx, w.Client); err != nil {
			return err
		}
	}
	return errors.Join(w.Client.Create(ctx, secret), w.Client.Create(ctx, config))
}

// Change changes WindowsConfig.
func (w *World) Change(ctx context.Context, change func(*v1alpha1.WindowsConfigSpec)) error {
	var config v1alpha1.WindowsConfig
	if err := w.Client.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		return err
	}
	was := config.DeepCopy()
	change(&config.Spec)
	return w.Client.Patch(ctx, &config, client.MergeFrom(was))
}

// bridgeCNIConfig is the pod network of hosts that run no pods: containernetworking's win-bridge with addresses of host-local.
const bridgeCNIConfig = `{
  "cniVersion": "0.3.1",
  "name": "lab",
  "type": "win-bridge",
  "ipam": {"type": "host-local", "subnet": "{{.PodCIDR}}"},
  "dns": {"nameservers": ["{{.ClusterDNS}}"]}
}
`

// Announce tells the operator of hosts the way users do: in ConfigMap windows-instances. Hosts whose SSH server
// has another port than 22 are announced as WindowsInstances.
func (w *World) Announce(ctx context.Context, hosts ...Host) error {
	entries := map[string]string{}
	for _, h := range hosts {
		if h.Port == sshPort {
			entries[h.Address] = "username=" + User
			continue
		}
		if err := w.Client.Create(ctx, h.Instance()); err != nil {
			return fmt.Errorf("announcing host %s: %w", h.Name, err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.InstancesConfigMap},
		Data:       entries,
	}
	if err := w.Client.Create(ctx, cm); err != nil {
		return fmt.Errorf("announcing hosts: %w", err)
	}
	return nil
}

// Release has the operator leave a host as it is when its instance is deleted.
func (w *World) Release(ctx context.Context, i *v1alpha1.WindowsInstance) error {
	was := i.DeepCopy()
	metav1.SetMetaDataAnnotation(&i.ObjectMeta, api.AnnotationRelease, "true")
	if err := w.Client.Patch(ctx, i, client.MergeFrom(was)); err != nil {
		return fmt.Errorf("releasing the host of %s: %w", i.Name, err)
	}
	return nil
}

// Diagnosis is what a person needs after something did not come about.
func (w *World) Diagnosis() string {
	log := w.Operator.Log()
	return fmt.Sprintf("the end of the operator's log:\n%s\n%s", log[max(0, len(log)-20000):], w.Lab.Logs())
}

// Close takes everything down and removes what was made.
func (w *World) Close() {
	if w.Operator != nil {
		w.Operator.Kill()
	}
	if w.stop != nil {
		w.stop()
	}
	for _, h := range w.simulated {
		h.Close()
	}
	w.addresses.Close()
	if w.Lab != nil {
		w.Lab.Close()
	}
	w.folder.Remove()
}
