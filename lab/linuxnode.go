//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
	"github.com/windows-machine-config/wmco/lab/cluster/proxy"
	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// A LinuxNode is a control plane node: the real kubelet, containerd and runc in namespaces and a cgroup of their own, on the network of
// the lab's hosts. Only pods with the host's network run on it, until ConnectPods; they reach the API server at the address of Service
// kubernetes.
type LinuxNode struct {
	lab    *Lab
	name   string
	folder *Folder

	mu       sync.Mutex
	reaper   *reaper      // nil while off
	pid      int          // of the node's first process
	services *proxy.Proxy // at the address of Service kubernetes
	pods     bool         // whether ConnectPods was called
}

const (
	// linuxNodeNumber is the last byte of the node's address, above those of Windows hosts.
	linuxNodeNumber = 250
	// nodeTimeout is how long the node may take to be Ready; on two busy cores it takes 20 s.
	nodeTimeout = 2 * time.Minute
	// pauseRepository has the image of the first process of pods.
	pauseRepository = "linuxpause"
	runc            = "/usr/sbin/runc"
	// controlPlaneRole is a label of Nodes, and their taint.
	controlPlaneRole = "node-role.kubernetes.io/control-plane"
)

// Programs of a LinuxNode: their names in commands to the reaper, and the names of their logs.
const (
	containerdProgram = "containerd"
	kubeletProgram    = "kubelet"
)

// CanRunLinuxNodes returns nil if this machine can run a LinuxNode, or an error that names what is missing.
func CanRunLinuxNodes() error {
	if err := CanHaveHosts(); err != nil {
		return err
	}
	if err := findService(runc, "runc"); err != nil {
		return err
	}
	if err := CanLimit(); err != nil {
		return err
	}
	return CanRunRegistries()
}

// CanLimit returns nil if all resources of containers can be limited, or an error that names what is missing. Memory of Windows containers is limited
// on every machine.
func CanLimit() error {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "memory") {
		return errors.New("containers of the lab need the memory controller of cgroup version 1; this machine has version 2 only")
	}
	return nil
}

// linuxNodePrograms returns containerd and its shim. The kubelet is part of the control plane's program.
func linuxNodePrograms() []program {
	const module, commands = "../payload/containerd", "github.com/containerd/containerd/v2/cmd/"
	return []program{
		{pkg: commands + "containerd", module: module, about: "building containerd for Linux (two minutes the first time)"},
		{pkg: commands + "containerd-shim-runc-v2", module: module, about: "building containerd's shim for Linux"},
	}
}

func linuxPauseProgram() program {
	return program{pkg: "windows/containers/linuxpause", about: "building the first process of pods on Linux"}
}

// StartLinuxNode starts a node, and returns when it is Ready. The node pulls all images from the given registry, whatever their
// names are.
func (l *Lab) StartLinuxNode(ctx context.Context, name string, images *Registry) (*LinuxNode, error) {
	n := &LinuxNode{lab: l, name: name}
	if err := n.prepare(ctx, images); err != nil {
		return nil, fmt.Errorf("preparing node %s: %w", name, err)
	}
	l.mu.Lock()
	l.linux = append(l.linux, n)
	l.mu.Unlock()
	return n, n.Boot(ctx)
}

// prepare writes the node's files, pushes the image that containerd needs, and creates the Node with its labels, which a
// kubelet may not set.
func (n *LinuxNode) prepare(ctx context.Context, images *Registry) error {
	if err := CanRunLinuxNodes(); err != nil {
		return err
	}
	var err error
	if n.folder, err = newFolder(n.lab.reaper, "linuxnode"); err != nil {
		return err
	}
	kubelet := []string{
		n.lab.ControlPlane.program, kubeletProgram, "--config=" + n.path("kubelet.yaml"), "--kubeconfig=" + n.path("kubelet.conf"),
		"--node-ip=" + n.Address(), "--hostname-override=" + n.name,
	}
	spec := hostspec.LinuxNode{
		Name: n.name, Cgroup: filepath.Base(n.folder.Path), ServiceAddress: controlplane.ServiceOfTheAPI,
		Programs: map[string][]string{
			kubeletProgram:   kubelet,
			kubeProxyProgram: {n.lab.ControlPlane.program, kubeProxyProgram, "--config=" + n.path("kube-proxy.yaml")},
		},
		Path: "/usr/sbin:/usr/bin:/sbin:/bin",
	}
	for _, p := range linuxNodePrograms() {
		path, err := n.lab.cache.build(ctx, p)
		if err != nil {
			return err
		}
		spec.Path = filepath.Dir(path) + ":" + spec.Path
		if filepath.Base(path) == containerdProgram {
			spec.Programs[containerdProgram] = []string{path, "--config", n.path("containerd.toml")}
		}
	}
	if err := hostspec.Write(n.folder.Path, spec); err != nil {
		return err
	}
	if err := n.lab.pushLinux(ctx, linuxPauseProgram(), images, pauseRepository, "1"); err != nil {
		return err
	}
	if err := n.writeFiles(images); err != nil {
		return err
	}
	return n.createNode(ctx)
}

// pushLinux builds a program and pushes an image for Linux that has only that.
func (l *Lab) pushLinux(ctx context.Context, p program, images *Registry, repository, tag string) error {
	content, err := l.cache.content(ctx, p)
	if err != nil {
		return err
	}
	i, err := image.NewLinux(runtime.GOARCH, []byte(content))
	if err != nil {
		return err
	}
	return images.Push(ctx, repository, tag, i)
}

func (n *LinuxNode) createNode(ctx context.Context) error {
	_, err := n.lab.ControlPlane.clients.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{controlPlaneRole: "", corev1.LabelOSStable: "linux"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: controlPlaneRole, Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Node %s: %w", n.name, err)
	}
	return nil
}

// Boot turns the node on, and returns when it is Ready.
func (n *LinuxNode) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout(nodeTimeout))
	defer cancel()
	began := time.Now()
	if err := n.turnOn(ctx); err != nil {
		return fmt.Errorf("booting node %s: %w", n.name, err)
	}
	if err := n.waitUntilReady(ctx, began); err != nil {
		return fmt.Errorf("booting node %s: %w", n.name, err)
	}
	return nil
}

func (n *LinuxNode) turnOn(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reaper != nil {
		return errors.New("the node is already on")
	}
	for _, file := range []string{hostspec.LinuxNodePID, hostspec.LinuxNodeReady} {
		_ = os.Remove(n.path(file)) // of the last boot
	}
	var err error
	if n.reaper, err = startReaper(n.lab.reaper, 0, "linuxnode", n.folder.Path); err != nil {
		return err
	}
	err = n.wait(ctx, "its first process", func(context.Context) (err error) {
		text, err := os.ReadFile(n.path(hostspec.LinuxNodePID))
		if err == nil {
			n.pid, err = strconv.Atoi(string(text))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := n.lab.network.addHost(linuxNodeNumber, n.pid); err != nil {
		return err
	}
	if err := n.wait(ctx, "its mounts", exists(n.path(hostspec.LinuxNodeReady))); err != nil {
		return err
	}
	if err := n.serveAPI(); err != nil {
		return err
	}
	if err := n.reaper.send("start " + containerdProgram); err != nil {
		return err
	}
	socket := fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", n.pid)
	if err := n.wait(ctx, "containerd", exists(socket)); err != nil {
		return err
	}
	if err := n.reaper.send("start " + kubeletProgram); err != nil || !n.pods {
		return err
	}
	return n.startProxy()
}

// wait waits until a function succeeds or the node has failed.
func (n *LinuxNode) wait(ctx context.Context, what string, try func(context.Context) error) error {
	if err := Until(ctx, 20*time.Millisecond, what, try, n.reaper.failure); err != nil {
		return fmt.Errorf("%w\n%s", err, n.logs(2000))
	}
	return nil
}

func exists(path string) func(context.Context) error {
	return func(context.Context) error { _, err := os.Stat(path); return err }
}

// waitUntilReady waits until the Node has reported Ready since the boot.
func (n *LinuxNode) waitUntilReady(ctx context.Context, began time.Time) error {
	return n.wait(ctx, "the Node", func(ctx context.Context) error {
		node, err := n.lab.ControlPlane.clients.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// The times of conditions have whole seconds.
		if !nodestate.IsReady(node) || nodestate.Ready(node).LastHeartbeatTime.Time.Before(began.Truncate(time.Second)) {
			return errors.New("the Node is not Ready")
		}
		return nil
	})
}

// serveAPI forwards connections to the address of Service kubernetes on the node to the API server, as kube-proxy would.
func (n *LinuxNode) serveAPI() error {
	err := inNamespace(n.pid, func() (err error) {
		n.services, err = proxy.Listen(proxy.Options{
			Listen: net.JoinHostPort(controlplane.ServiceOfTheAPI, "443"), Target: n.lab.ControlPlane.Address(),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("forwarding to the API server: %w", err)
	}
	return nil
}

// PowerOff kills every process of the node and keeps its disk.
func (n *LinuxNode) PowerOff() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reaper == nil {
		return
	}
	if n.services != nil {
		n.services.Close()
	}
	n.reaper.stop()
	n.reaper, n.services = nil, nil
	n.lab.network.removeHost(linuxNodeNumber)
}

// Name returns the name of the Node.
func (n *LinuxNode) Name() string { return n.name }

// Address returns the node's IPv4 address.
func (n *LinuxNode) Address() string { return n.lab.network.address(linuxNodeNumber) }

func (n *LinuxNode) path(name string) string { return filepath.Join(n.folder.Path, name) }

func (n *LinuxNode) logs(size int64) string {
	var text strings.Builder
	for _, program := range []string{containerdProgram, kubeletProgram, kubeProxyProgram} {
		fmt.Fprintf(&text, "--- %s: %s\n%s\n", n.name, program, tail(n.path(program+".log"), size))
	}
	return text.String()
}

func (n *LinuxNode) close() {
	n.PowerOff()
	n.folder.Remove()
}
