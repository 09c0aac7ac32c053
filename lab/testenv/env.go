//go:build linux

// Package testenv opens a cluster for tests of the operator: the lab's control plane, the operator installed from deploy/ and
// running with its own ServiceAccount, and hosts to join, on Wine or simulated. The demo, the tests of the lab and the
// measurements use it.
package testenv

import (
	"context"
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
)

// User is the account on every host.
const User = "Administrator"

// Options are the options of an Env.
type Options struct {
	// WineHosts and SimulatedHosts are the numbers of hosts of each kind; one of the two is zero.
	WineHosts, SimulatedHosts int
	// NoQuirks is the reason why simulated hosts have no quirks. If it is empty, each has quirks derived from its name
	// (sim.WindowsOptions).
	NoQuirks string
	// WholePayload gives Wine hosts the whole payload with the compression of releases, instead of only the programs of a Ready
	// node. It takes longer to build.
	WholePayload bool
	// Pod runs the operator as users do: as the pod of its Deployment, on a Linux node.
	Pod bool
	// Install installs the operator's manifests, as a cluster administrator; deploy/ is applied if nil. With Pod, the registry has the operator's
	// image with tag v0.1.0.
	Install func(ctx context.Context, env *Env) error
	// FIPS builds the operator of the pod with Go's certified cryptographic module, and makes Go refuse any other cryptography.
	FIPS bool
	// Network is the pod network of Wine hosts.
	Network Network
	// OVN are OVN-Kubernetes' own programs for NetworkHybridOverlay; the stand-in is used if they are not set.
	OVN ovn.Programs
	// Pods enables pods with NetworkHybridOverlay, whose real kube-proxy makes Services work, too. With NetworkLab pods are
	// always enabled.
	Pods bool
	// Components are the names of additional components for Wine hosts.
	Components []string
	// ProgramBytes is the size of each program, except WICD, that simulated hosts get; 64 KiB if 0.
	ProgramBytes int
	// OpenShift is the platform of an OpenShift cluster, as in None or AWS; the cluster is plain Kubernetes if empty.
	OpenShift string
	// Kubernetes is the version that the control plane reports at first, as in v1.33.13; that of its code if empty.
	Kubernetes string
	// Minors are the minor versions of Kubernetes in the payload of Wine hosts; the newest one if empty.
	Minors []string
	// Before runs before the operator is installed, for clusters that are not empty.
	Before func(context.Context, *Env) error
	// Log gets a line for each long operation.
	Log io.Writer
}

// Env is a cluster with the operator. It ends with Close, or with the process.
type Env struct {
	// Lab has the control plane and the Wine hosts.
	Lab *lab.Lab
	// Client and Clients are those of a cluster administrator.
	Client  client.WithWatch
	Clients kubernetes.Interface
	// Operator is running, unless Pod is. The other one is nil.
	Operator *Operator
	Pod      *OperatorPod
	// OVN is the Linux side of NetworkHybridOverlay; nil with other networks.
	OVN *ovn.Side
	// Payload is the folder of the payload.
	Payload string
	// Kubeconfig is the path of a cluster administrator's kubeconfig.
	Kubeconfig string
	// Key is the private key for all hosts, in OpenSSH's format.
	Key []byte

	hosts      []Host
	simulated  []*sim.Host
	addresses  *lab.Addresses // of simulated hosts
	authorized ssh.PublicKey  // that of Key
	network    Network
	pods       bool
	images     *lab.Registry              // of pods
	running    context.Context            // ends with Close
	stop       context.CancelFunc         // ends running
	mirrors    []v1alpha1.RegistryMirrors // of the images of pods
	folder     *lab.Folder
}

// Host is a host that can join the cluster.
type Host struct {
	// Name is the host's name in lower case, as its node will have it.
	Name string
	// Address and Port are those of its SSH server.
	Address string
	Port    int32
}

// sshPort is the SSH port of hosts.
const sshPort = 22

// endpoint returns the address with the port.
func (h Host) endpoint() string { return net.JoinHostPort(h.Address, strconv.Itoa(int(h.Port))) }

// Instance returns the object that a user creates for the host.
func (h Host) Instance() *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: h.Name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.Address, Port: h.Port, Username: User},
	}
}

// Open starts everything. No host joins before Announce.
func Open(ctx context.Context, o Options) (*Env, error) {
	env := &Env{}
	env.running, env.stop = context.WithCancel(context.Background())
	if err := env.open(ctx, o); err != nil {
		env.Close()
		return nil, err
	}
	return env, nil
}

func (env *Env) open(ctx context.Context, o Options) (err error) {
	if o.WineHosts == 0 {
		if env.addresses, err = lab.OpenAddresses(ctx, o.Log); err != nil {
			return err
		}
	}
	if env.folder, err = lab.NewFolder(ctx, "testenv", o.Log); err != nil {
		return err
	}
	signer, key, err := sshserver.NewKey()
	if err != nil {
		return err
	}
	env.authorized, env.Key = signer.PublicKey(), key
	if env.Payload, err = env.payload(ctx, o); err != nil {
		return fmt.Errorf("building the payload: %w", err)
	}
	address := ""
	if env.addresses != nil {
		address = env.addresses.Next().String()
	}
	env.Lab, err = lab.Open(ctx, lab.Options{
		Hosts: names(o.WineHosts), Address: address, User: User, AuthorizedKeys: ssh.MarshalAuthorizedKey(env.authorized), Kubernetes: o.Kubernetes,
		LinuxNode: o.Pod, NoPodCIDRs: o.Network == NetworkHybridOverlay, Progress: o.Log,
	})
	if err != nil {
		return err
	}
	if err := env.startHosts(o); err != nil {
		return err
	}
	env.network, env.pods = o.Network, o.Pods || o.Network == NetworkLab
	if o.WineHosts > 0 {
		if err := env.startImages(ctx); err != nil {
			return err
		}
	}
	if err := env.connect(); err != nil {
		return err
	}
	if o.OpenShift != "" {
		if err := env.MakeOpenShift(ctx, o.OpenShift); err != nil {
			return err
		}
	} else if err := env.publish(ctx); err != nil {
		return err
	}
	if env.network == NetworkHybridOverlay {
		if err := env.startOVN(ctx, o); err != nil {
			return err
		}
	}
	if o.Before != nil {
		if err := o.Before(ctx, env); err != nil {
			return err
		}
	}
	return env.install(ctx, o)
}

// connect creates the administrator's clients and kubeconfig.
func (env *Env) connect() error {
	var err error
	if env.Client, err = NewClient(env.Lab.ControlPlane.RESTConfig()); err != nil {
		return err
	}
	if env.Clients, err = kubernetes.NewForConfig(env.Lab.ControlPlane.RESTConfig()); err != nil {
		return err
	}
	env.Kubeconfig = filepath.Join(env.folder.Path, "kubeconfig")
	return env.Lab.ControlPlane.Kubeconfig(env.Kubeconfig)
}

// NewClient returns a client of the kinds of Kubernetes and of the operator.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{} // without a logger, the first warning prints a stack
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// install applies deploy/, or runs Install of the options. Without option Pod, it starts the operator as a process on this machine.
func (env *Env) install(ctx context.Context, o Options) error {
	root, err := Repository(ctx)
	if err != nil {
		return err
	}
	if o.Pod {
		if err := env.startPod(ctx, root, o); err != nil {
			return err
		}
		if err := env.Pod.Push(ctx, env.Payload, "v0.1.0"); err != nil {
			return err
		}
	}
	if o.Install != nil {
		err = o.Install(ctx, env)
	} else {
		err = manifest.Apply(ctx, env.Lab.ControlPlane.RESTConfig(), filepath.Join(root, "deploy"))
	}
	if err != nil {
		return fmt.Errorf("installing the operator: %w", err)
	}
	if o.Pod {
		if o.FIPS {
			if err := env.Pod.enforceFIPS(ctx); err != nil {
				return err
			}
		}
		_, err := env.Pod.WaitUntilReady(ctx)
		return err
	}
	kubeconfig := filepath.Join(env.folder.Path, "operator.kubeconfig")
	err = env.Lab.ControlPlane.KubeconfigFor(ctx, api.DefaultNamespace, OperatorAccount, kubeconfig)
	if err != nil {
		return fmt.Errorf("creating the operator's kubeconfig: %w", err)
	}
	env.Operator, err = newOperator(ctx, operatorOptions{
		root: root, namespace: api.DefaultNamespace, kubeconfig: kubeconfig, payload: env.Payload, log: filepath.Join(env.folder.Path, "operator.log"), program: filepath.Join(env.folder.Path, "wmco"),
	}, o.Log)
	if err != nil {
		return err
	}
	return env.Operator.Start()
}

// kubeletConfig is the part of kubeadm's kubelet configuration that the operator's nodes use. It has the DNS address before the Service
// exists.
const kubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"

// publish creates ConfigMaps cluster-info, with the address of the API server, and kubelet-config, as kubeadm does.
func (env *Env) publish(ctx context.Context) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: env.Lab.ControlPlane.RESTConfig().Host, CertificateAuthorityData: env.Lab.ControlPlane.CA()}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	info := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": string(text)},
	}
	kubelets := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubelet-config"},
		Data:       map[string]string{"kubelet": kubeletConfig},
	}
	return errors.Join(env.Client.Create(ctx, info), env.Client.Create(ctx, kubelets))
}

// Hosts returns all hosts.
func (env *Env) Hosts() []Host { return env.hosts }

// Configure creates the objects that an administrator creates first: the Secret with the key, and WindowsConfig with the pod network.
func (env *Env) Configure(ctx context.Context) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.PrivateKeySecret},
		Data:       map[string][]byte{api.PrivateKeyKey: env.Key},
	}
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Registries.Mirrors = env.mirrors
	config.Spec.Network.Provider = v1alpha1.NetworkCustom
	config.Spec.Network.Custom = &v1alpha1.CustomNetwork{CNIConfig: bridgeCNIConfig}
	switch env.network {
	case NetworkLab:
		config.Spec.Network.Custom.CNIConfig = podCNIConfig
	case NetworkHybridOverlay:
		config.Spec.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
	case NetworkFlannel:
		config.Spec.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}
		if err := configureFlannel(ctx, env.Client); err != nil {
			return err
		}
	}
	if env.pods {
		// The drives of the hosts are folders of this machine, whose disk may be fuller than a host's.
		config.Spec.Kubelet.EvictionHard = map[string]string{"nodefs.available": "1Gi", "imagefs.available": "1Gi"}
	}
	return errors.Join(env.Client.Create(ctx, secret), env.Client.Create(ctx, config))
}

// Change changes WindowsConfig.
func (env *Env) Change(ctx context.Context, change func(*v1alpha1.WindowsConfigSpec)) error {
	var config v1alpha1.WindowsConfig
	if err := env.Client.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		return err
	}
	before := config.DeepCopy()
	change(&config.Spec)
	return env.Client.Patch(ctx, &config, client.MergeFrom(before))
}

// Announce adds hosts to ConfigMap windows-instances. For hosts whose SSH port is not 22 it creates WindowsInstances.
func (env *Env) Announce(ctx context.Context, hosts ...Host) error {
	entries := map[string]string{}
	for _, h := range hosts {
		if h.Port == sshPort {
			entries[h.Address] = "username=" + User
			continue
		}
		if err := env.Client.Create(ctx, h.Instance()); err != nil {
			return fmt.Errorf("creating the instance of host %s: %w", h.Name, err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.InstancesConfigMap},
		Data:       entries,
	}
	if err := env.Client.Create(ctx, cm); err != nil {
		return fmt.Errorf("creating ConfigMap windows-instances: %w", err)
	}
	return nil
}

// Release sets the annotation with which the operator leaves the host unchanged when its instance is deleted.
func (env *Env) Release(ctx context.Context, i *v1alpha1.WindowsInstance) error {
	before := i.DeepCopy()
	metav1.SetMetaDataAnnotation(&i.ObjectMeta, api.AnnotationRelease, "true")
	if err := env.Client.Patch(ctx, i, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("releasing the host of %s: %w", i.Name, err)
	}
	return nil
}

// Diagnosis returns the logs that explain a failure.
func (env *Env) Diagnosis() string {
	var log string
	if env.Pod != nil {
		log = env.Pod.Log(context.Background())
	} else {
		log = env.Operator.Log()
	}
	text := fmt.Sprintf("the end of the operator's log:\n%s\n%s", log[max(0, len(log)-20000):], env.Lab.Logs())
	if env.OVN != nil {
		text += "\nOVN-Kubernetes: " + env.OVN.Log()
	}
	return text + env.simulatedLogs()
}

// Close stops everything and removes all files.
func (env *Env) Close() {
	if env.Operator != nil {
		env.Operator.Kill()
	}
	env.stop()
	env.OVN.Close()
	for _, h := range env.simulated {
		h.Close()
	}
	env.addresses.Close()
	if env.Lab != nil {
		env.Lab.Close()
	}
	env.folder.Remove()
}
