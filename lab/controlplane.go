//go:build linux

package lab

import (
	"cmp"
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

// The cluster's networks, with common ranges.
const (
	PodNetwork     = "10.244.0.0/14" // each node gets a /24 of it; a lab with hosts has another range
	ServiceNetwork = controlplane.ServiceNetwork

	serviceNetwork6 = "fd00:10:96::/112"
)

const (
	// startTimeout is how long the control plane may take to serve; on a busy machine with two cores it takes 15 s.
	startTimeout = 2 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// ControlPlaneOptions are the options of a control plane.
type ControlPlaneOptions struct {
	// BindAddress is the address of the API server; 127.0.0.1 if empty. Hosts reach only Lab's address.
	BindAddress string
	// PodNetwork is the range of pod addresses; the constant PodNetwork if empty.
	PodNetwork string
	// NoPodCIDRs leaves spec.podCIDRs of Nodes empty, as in OpenShift, whose network assigns ranges itself.
	NoPodCIDRs bool
	// Kubernetes is the version of API server, controller manager and scheduler, as in v1.33.13; the newest one if empty. A module below
	// kubernetes must pin it.
	Kubernetes string
	// DualStack gives Services addresses of both families if they request them.
	DualStack bool
	// Progress gets a line for each operation that takes more than two seconds; standard error if nil.
	Progress io.Writer
}

// A ControlPlane is a running etcd, API server, controller manager and scheduler. All certificates are signed by new CAs, and
// all are verified. Node and RBAC authorize requests, NodeRestriction is enabled, and certificate requests are signed once
// approved; nothing approves them. It ends with the process that started it, even if that is killed.
type ControlPlane struct {
	folder  *Folder // state, certificates and logs
	program string
	// kubernetes are the programs of another version of Kubernetes, by name. Without it, program runs those of its own version.
	kubernetes  map[string]string
	reaper      string
	config      controlplane.Config
	credentials controlplane.Credentials
	clients     kubernetes.Interface // of a cluster administrator

	mu       sync.Mutex // guards running
	running  map[string]*reaper
	stopOnce sync.Once
	cache    cache
}

// StartControlPlane builds the control plane unless it is in the cache, starts it, and returns when API server and controllers
// work. The context limits the start only.
func StartControlPlane(ctx context.Context, o ControlPlaneOptions) (*ControlPlane, error) {
	c, err := openCache(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{
		config: controlplane.Config{
			Address: cmp.Or(o.BindAddress, "127.0.0.1"), PodNetwork: cmp.Or(o.PodNetwork, PodNetwork), AuditPolicy: auditPolicy,
		},
		running: map[string]*reaper{}, cache: c,
	}
	if o.DualStack {
		cp.config.ServiceNetwork6 = serviceNetwork6
	}
	if o.NoPodCIDRs {
		cp.config.PodNetwork = ""
	}
	if cp.kubernetes, err = c.kubernetes(ctx, o.Kubernetes); err != nil {
		return nil, err
	}
	if cp.program, err = c.build(ctx, controlPlaneProgram()); err != nil {
		return nil, err
	}
	if cp.reaper, err = c.build(ctx, reaperProgram()); err != nil {
		return nil, err
	}
	done := c.report("starting the control plane")
	if err := cp.start(ctx); err != nil {
		cp.Stop()
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	done()
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout(startTimeout))
	defer cancel()
	var err error
	if cp.folder, err = newFolder(cp.reaper, "controlplane"); err != nil {
		return err
	}
	cp.config.Folder = cp.folder.Path
	if cp.config.Port, err = FreePort(cp.config.Address); err != nil {
		return err
	}
	if cp.config.EtcdPort, err = FreePort("127.0.0.1"); err != nil {
		return err
	}
	if err := cp.writeCredentials(); err != nil {
		return err
	}
	if cp.clients, err = kubernetes.NewForConfig(cp.RESTConfig()); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := cp.run(controlplane.Etcd); err != nil {
		return err
	}
	if err := cp.startKubernetes(ctx); err != nil {
		return err
	}
	return cp.waitForControllers(ctx)
}

// startKubernetes starts everything but etcd.
func (cp *ControlPlane) startKubernetes(ctx context.Context) error {
	if err := cp.StartAPIServer(ctx); err != nil {
		return err
	}
	if err := cp.run(controlplane.ControllerManager); err != nil {
		return err
	}
	return cp.run(controlplane.Scheduler)
}

// writeCredentials creates the CA, and every certificate and kubeconfig of the programs.
func (cp *ControlPlane) writeCredentials() (err error) {
	if cp.credentials, err = cp.config.NewCredentials(); err != nil {
		return err
	}
	for name, content := range cp.credentials.Files {
		if err := os.WriteFile(cp.path(name), content, 0o600); err != nil {
			return fmt.Errorf("writing the control plane's credentials: %w", err)
		}
	}
	return nil
}

func (cp *ControlPlane) path(name string) string { return filepath.Join(cp.folder.Path, name) }

// run starts one of the programs.
func (cp *ControlPlane) run(name string) error {
	command := []string{"run", cp.path(name + ".log"), cp.program, name}
	if other, found := cp.kubernetes[name]; found {
		command = []string{"run", cp.path(name + ".log"), other}
	}
	r, err := startReaper(cp.reaper, 0, append(command, cp.config.Flags(name)...)...)
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.running[name] = r
	return nil
}

// failure returns an error with the end of the log if a program has exited, or nil while all run.
func (cp *ControlPlane) failure() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for name, r := range cp.running {
		if err := r.failure(); err != nil {
			return fmt.Errorf("running %s: %w\n%s", name, err, tail(cp.path(name+".log"), 2000))
		}
	}
	return nil
}

// StopAPIServer kills the API server. The data stay in etcd.
func (cp *ControlPlane) StopAPIServer() { cp.stop(controlplane.APIServer) }

// stop kills one of the programs.
func (cp *ControlPlane) stop(name string) {
	cp.mu.Lock()
	r := cp.running[name]
	delete(cp.running, name)
	cp.mu.Unlock()
	if r != nil {
		r.stop()
	}
}

// StartAPIServer starts the API server at the same address and port, and returns when it is ready.
func (cp *ControlPlane) StartAPIServer(ctx context.Context) error {
	if err := cp.run(controlplane.APIServer); err != nil {
		return err
	}
	return Until(ctx, pollInterval, "the API server to be ready", func(ctx context.Context) error {
		return cp.clients.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}, cp.failure)
}

// Upgrade restarts the control plane with another version of Kubernetes; see ControlPlaneOptions. The data stay in etcd.
func (cp *ControlPlane) Upgrade(ctx context.Context, kubernetes string) error {
	next, err := cp.cache.kubernetes(ctx, kubernetes)
	if err != nil {
		return err
	}
	for _, name := range []string{controlplane.APIServer, controlplane.ControllerManager, controlplane.Scheduler} {
		cp.stop(name)
	}
	cp.kubernetes = next
	return cp.startKubernetes(ctx)
}

// waitForControllers waits for an object that only the controller manager creates.
func (cp *ControlPlane) waitForControllers(ctx context.Context) error {
	return Until(ctx, pollInterval, "the controllers to work", func(ctx context.Context) error {
		_, err := cp.clients.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	}, cp.failure)
}

// Stop stops the control plane and removes all its files. It may be called more than once.
func (cp *ControlPlane) Stop() {
	cp.stopOnce.Do(func() {
		cp.mu.Lock()
		defer cp.mu.Unlock()
		for _, r := range cp.running {
			r.stop()
		}
		cp.folder.Remove()
	})
}

// LinkKubectl creates kubectl of the control plane's version at a path.
func (cp *ControlPlane) LinkKubectl(path string) error { return os.Symlink(cp.program, path) }

// Address returns the address and port of the API server.
func (cp *ControlPlane) Address() string {
	return net.JoinHostPort(cp.config.Address, strconv.Itoa(cp.config.Port))
}

// CA returns the certificate of the cluster's CA, as PEM.
func (cp *ControlPlane) CA() []byte { return cp.credentials.CA.PEM }

// Issue returns a certificate of the cluster's CA: for a client, or for a client and server if it has addresses.
func (cp *ControlPlane) Issue(subject pkix.Name, addresses ...net.IP) (controlplane.Pair, error) {
	return cp.credentials.CA.Issue(subject, nil, addresses)
}

// Log returns the end of the log of one program: etcd, kube-apiserver, kube-controller-manager or kube-scheduler.
func (cp *ControlPlane) Log(program string, bytes int64) string {
	return tail(cp.path(program+".log"), bytes)
}

// RESTConfig returns the configuration of a client of a cluster administrator.
func (cp *ControlPlane) RESTConfig() *rest.Config {
	return &rest.Config{
		Host: cp.config.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: cp.CA(), CertData: cp.credentials.Admin.Cert, KeyData: cp.credentials.Admin.Key,
		},
		QPS: -1, // no rate limit for the lab's own requests
	}
}

// FreePort returns a free port below the range of ports for outgoing connections (32768 and up), so that no connection uses it
// before the caller does.
func FreePort(address string) (int, error) {
	const first, count = 20000, 12000
	var failures []error
	for range 20 {
		port := first + rand.IntN(count)
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		failures = append(failures, err)
	}
	return 0, fmt.Errorf("finding a free port: %w", errors.Join(failures...))
}

// accountTokenLife is long enough for a demo that runs for a day.
const accountTokenLife = 24 * time.Hour

// Kubeconfig writes a kubeconfig file of a cluster administrator, mode 0600.
func (cp *ControlPlane) Kubeconfig(path string) error {
	return cp.writeKubeconfig(path, controlplane.User{Certificate: cp.credentials.Admin.Cert, Key: cp.credentials.Admin.Key})
}

// KubeconfigFor writes a kubeconfig file with a Token, mode 0600.
func (cp *ControlPlane) KubeconfigFor(ctx context.Context, namespace, serviceAccount, path string) error {
	token, err := cp.Token(ctx, namespace, serviceAccount)
	if err != nil {
		return err
	}
	return cp.writeKubeconfig(path, controlplane.User{Token: token})
}

// Token returns a token of an existing service account, which is bound to the account and valid for a day.
func (cp *ControlPlane) Token(ctx context.Context, namespace, serviceAccount string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(accountTokenLife.Seconds()))}}
	response, err := cp.clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for service account %s/%s: %w", namespace, serviceAccount, err)
	}
	return response.Status.Token, nil
}

func (cp *ControlPlane) writeKubeconfig(path string, user controlplane.User) error {
	content, err := controlplane.Kubeconfig(cp.config.URL(), cp.CA(), user)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}
