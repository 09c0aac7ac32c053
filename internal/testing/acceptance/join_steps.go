package acceptance

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

const (
	// podNetwork is the range of pod addresses, Flannel's default; flannelConf is its configuration with the Windows defaults.
	podNetwork  = "10.244.0.0/16"
	flannelConf = `{"Network": "` + podNetwork + `", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`
	// operatorAccount is the operator's ServiceAccount in deploy/.
	operatorAccount = "windows-machine-config-operator"
	// sshPort is the port of the SSH server.
	sshPort = "22"
)

// The API paths that steps use.
const (
	ofOperator  = "/api/v1/namespaces/" + api.DefaultNamespace
	ofInstances = "/apis/" + api.GroupName + "/v1alpha1/namespaces/" + api.DefaultNamespace + "/windowsinstances/"
)

// startOperator is a step of the join.
func (j *joining) startOperator(ctx context.Context, _ *session) (string, error) {
	if err := j.publish(ctx); err != nil {
		return "", untriedErrorf("%w", err)
	}
	if err := j.kubectl(ctx, "apply", "--server-side", "-k", j.path("deploy")); err != nil { // see deploy/README.md
		return "", fmt.Errorf("kubectl apply -k deploy: %w", err)
	}
	seconds := int64((24 * time.Hour).Seconds())
	token := authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := j.api.create(ctx, ofOperator+"/serviceaccounts/"+operatorAccount+"/token", token, &token); err != nil {
		return "", err
	}
	if err := j.writeKubeconfig("operator.conf", controlplane.User{Token: token.Status.Token}); err != nil {
		return "", untriedErrorf("%w", err)
	}
	if err := j.startOperatorProcess(); err != nil {
		return "", err
	}
	began := time.Now()
	// The operator publishes node settings only if its controllers work.
	if err := j.configure(ctx); err != nil {
		return "", err
	}
	err := j.await(ctx, "the operator does not publish node settings", func(ctx context.Context) (string, error) {
		var list corev1.ConfigMapList
		if err := j.api.get(ctx, ofOperator+"/configmaps", &list); err != nil {
			return err.Error(), nil
		}
		for _, c := range list.Items {
			if strings.HasPrefix(c.Name, api.ServicesConfigMapPrefix) {
				return "", nil
			}
		}
		return j.endOfLog("operator"), nil
	})
	return fmt.Sprintf("it published the node settings after %.0f s", time.Since(began).Seconds()), err
}

// kubeletConfig is the part of kubeadm's kubelet configuration for new nodes that the operator's nodes get. No DNS server runs at that address.
const kubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"

// publish writes ConfigMaps cluster-info and kubelet-config, as kubeadm does, and an administrator's kubeconfig.
func (j *joining) publish(ctx context.Context) error {
	admin := j.credentials.Admin
	if err := j.writeKubeconfig("admin.conf", controlplane.User{Certificate: admin.Cert, Key: admin.Key}); err != nil {
		return err
	}
	public, err := controlplane.Kubeconfig(j.config.URL(), j.credentials.CA.PEM, controlplane.User{})
	if err != nil {
		return err
	}
	return errors.Join(
		j.api.create(ctx, "/api/v1/namespaces/"+metav1.NamespacePublic+"/configmaps", corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"}, Data: map[string]string{"kubeconfig": string(public)},
		}, nil),
		j.api.create(ctx, "/api/v1/namespaces/"+metav1.NamespaceSystem+"/configmaps", corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "kubelet-config"}, Data: map[string]string{"kubelet": kubeletConfig},
		}, nil))
}

func (j *joining) writeKubeconfig(name string, u controlplane.User) error {
	content, err := controlplane.Kubeconfig(j.config.URL(), j.credentials.CA.PEM, u)
	if err != nil {
		return err
	}
	return os.WriteFile(j.path(name), content, 0o600)
}

// configure creates what an administrator creates first: Flannel's configuration, WindowsConfig, and the Secret with the SSH key.
func (j *joining) configure(ctx context.Context) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "wmco-acceptance")
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	j.key = string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(signer.PublicKey()))) + " wmco-acceptance"
	config := v1alpha1.WindowsConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: "WindowsConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName},
		Spec:       v1alpha1.WindowsConfigSpec{Network: j.networkSpec()},
	}
	if err := j.serveImages("127.0.0.1:0"); err != nil {
		return err
	}
	if j.options.Mirror != "" {
		mirror := v1alpha1.RegistryMirror{Location: j.options.Mirror, Insecure: true}
		for _, source := range j.registries() {
			config.Spec.Registries.Mirrors = append(config.Spec.Registries.Mirrors, v1alpha1.RegistryMirrors{
				Source: source, Mirrors: []v1alpha1.RegistryMirror{mirror}, MirrorSourcePolicy: v1alpha1.NeverContactSource,
			})
		}
	}
	return errors.Join(
		j.publishNetwork(ctx),
		j.api.create(ctx, ofOperator+"/secrets", corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: api.PrivateKeySecret}, Data: map[string][]byte{api.PrivateKeyKey: pem.EncodeToMemory(block)},
		}, nil),
		j.api.create(ctx, "/apis/"+api.GroupName+"/v1alpha1/windowsconfigs", config, nil))
}

// networkSpec makes WICD report repairs without making them, so that the report shows how Windows itself restores its objects after a restart.
func (j *joining) networkSpec() v1alpha1.NetworkSpec {
	spec := v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}
	if j.options.Network == OVN {
		spec = ovnNetwork()
	}
	spec.Repair = v1alpha1.RepairReport
	return spec
}

// publishNetwork creates the cluster's objects of the pod network.
func (j *joining) publishNetwork(ctx context.Context) error {
	if j.options.Network == OVN {
		return errors.Join(j.allowOverlay(ctx), j.makeLinuxNodes(ctx))
	}
	flannel := metav1.ObjectMeta{Name: v1alpha1.FlannelNamespace}
	return errors.Join(
		j.api.create(ctx, "/api/v1/namespaces", corev1.Namespace{ObjectMeta: flannel}, nil),
		j.api.create(ctx, "/api/v1/namespaces/"+flannel.Name+"/configmaps", corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FlannelConfigMap}, Data: map[string]string{"net-conf.json": flannelConf},
		}, nil))
}

// announce is a step of the join: it authorizes the operator's login and adds this machine to the operator's list of hosts.
func (j *joining) announce(ctx context.Context, s *session) (string, error) {
	server, err := j.openSSH(ctx)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	var system corev1.Namespace
	if err := j.api.get(ctx, "/api/v1/namespaces/kube-system", &system); err != nil {
		return "", untriedErrorf("%w", err)
	}
	if err := s.change(change{kindNode, string(system.UID)}, func() error {
		return j.api.create(ctx, ofOperator+"/configmaps", corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: api.InstancesConfigMap}, Data: map[string]string{j.address: "username=" + j.options.User},
		}, nil)
	}); err != nil {
		return "", untriedErrorf("%w", err)
	}
	err = j.await(ctx, "the operator does not log in", func(ctx context.Context) (string, error) {
		return j.missing(ctx, api.ConditionReachable)
	})
	return server, err
}

// openSSH authorizes the operator's key at the SSH server of Windows, or starts a server if nothing listens on its port.
func (j *joining) openSSH(ctx context.Context) (server string, err error) {
	address := net.JoinHostPort(j.address, sshPort)
	connection, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err == nil {
		return "this machine's SSH server", errors.Join(connection.Close(), j.authorize(ctx, j.key))
	}
	if err := os.WriteFile(j.path("authorized_keys"), []byte(j.key+"\n"), 0o600); err != nil {
		return "", err
	}
	return "this program's own SSH server, because none listens on port " + sshPort, j.startSSH()
}

// startSSH starts this program's SSH server.
func (j *joining) startSSH() error {
	j.ownSSH = true
	return j.start("sshd", sshProgram, "--listen="+net.JoinHostPort(j.address, sshPort), "--user="+j.options.User,
		"--keys="+j.path("authorized_keys"), "--folder="+j.path(""))
}

// startOperatorProcess starts the operator's process.
func (j *joining) startOperatorProcess() error {
	return j.start("operator", operatorProgram, "--kubeconfig="+j.path("operator.conf"), "--payload-dir="+j.path("payload"),
		"--namespace="+api.DefaultNamespace, "--one-machine", "--metrics-bind-address=0", "--health-probe-bind-address=0")
}

// errNoSandboxImage reports a node that lacks only the sandbox image because its registry is out of reach.
var errNoSandboxImage = errors.New("the node lacks only the sandbox image")

// awaitNode is a step of the join. It also records the network facts of the machine, whether the node is Ready or not.
func (j *joining) awaitNode(ctx context.Context, s *session) (string, error) {
	seen, err := j.awaitReady(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return seen, err // the user interrupted the run
	}
	network := j.report.networkFacts("").compare(s.recordNetwork(context.WithoutCancel(ctx), networkOfNode))
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, network)
	}
	return seen + "\n" + network, nil
}

// networkOfNode is the prefix of the facts about the network of the machine when it is a node.
const networkOfNode = "node"

// awaitReady waits until the machine is a Ready node.
func (j *joining) awaitReady(ctx context.Context) (string, error) {
	began := time.Now()
	err := j.await(ctx, "the machine does not become a Ready node", func(ctx context.Context) (string, error) {
		if j.options.Network == OVN {
			if err := errors.Join(j.assignSubnet(ctx), j.approveOverlay(ctx)); err != nil {
				return err.Error(), nil
			}
		}
		missing, err := j.missing(ctx, api.ConditionReady)
		if missing != "" && err == nil {
			err = j.lacksOnlyImage(ctx)
		}
		return missing, err
	})
	if errors.Is(err, errNoSandboxImage) {
		return "", untriedErrorf("after %.0f s: %w", time.Since(began).Seconds(), err)
	}
	if err != nil {
		return "", err
	}
	node, err := j.node(ctx)
	if err != nil {
		return "", err
	}
	info := node.Status.NodeInfo
	seen := fmt.Sprintf("Ready %.0f s after the login: kubelet %s, %s, %s, range %s", time.Since(began).Seconds(), info.KubeletVersion,
		info.ContainerRuntimeVersion, info.KernelVersion, podRange(node))
	if j.options.Network != OVN {
		return seen, nil
	}
	more, err := j.awaitRemotes(ctx)
	return seen + more, err
}

// lacksOnlyImage returns errNoSandboxImage if the image could not be pulled because its registry is out of reach. Without the image, WICD does not
// configure containerd's network, and the node cannot be Ready.
func (j *joining) lacksOnlyImage(ctx context.Context) error {
	node, err := j.node(ctx)
	if err != nil {
		return nil // there is no node yet
	}
	for _, c := range node.Status.Conditions {
		failed := c.Reason == api.ReasonSandboxImagePullFailed || c.Reason == api.ReasonSandboxImageNotFound
		if string(c.Type) != api.ConditionSandboxImage || c.Status != corev1.ConditionFalse || !failed {
			continue
		}
		if reason := j.canGetImages(ctx, node); reason != nil {
			return fmt.Errorf("%w: %s: %w", errNoSandboxImage, c.Reason, reason)
		}
	}
	return nil
}

// missing returns the reason and message of a condition of the instance that is not True; empty if it is.
func (j *joining) missing(ctx context.Context, condition string) (string, error) {
	var i v1alpha1.WindowsInstance
	if err := j.api.get(ctx, ofInstances+j.address, &i); err != nil {
		return strings.Join(append(j.warnings(ctx, api.DefaultNamespace, api.InstancesConfigMap), err.Error()), "; "), nil
	}
	for _, c := range i.Status.Conditions {
		if c.Type == condition && c.Status == metav1.ConditionTrue {
			return "", nil
		}
		if c.Type == condition {
			return c.Reason + ": " + c.Message, nil
		}
	}
	return "its WindowsInstance has no condition " + condition, nil
}

// node returns the only Windows node.
func (j *joining) node(ctx context.Context) (corev1.Node, error) {
	var list corev1.NodeList
	if err := j.api.get(ctx, "/api/v1/nodes", &list); err != nil {
		return corev1.Node{}, err
	}
	nodes := slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return n.Labels[corev1.LabelOSStable] == "linux" })
	if len(nodes) != 1 {
		return corev1.Node{}, fmt.Errorf("found %d Windows nodes, want one", len(nodes))
	}
	return nodes[0], nil
}
