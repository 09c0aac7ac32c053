//go:build linux

package ovn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Namespace is that of OVN-Kubernetes.
const Namespace = "openshift-ovn-kubernetes"

// Options are the options of a Side.
type Options struct {
	// Config and Kubeconfig are those of a cluster administrator.
	Config     *rest.Config
	Kubeconfig string
	// Folder is for the files of programs.
	Folder string
	// Programs are run instead of the stand-in, if they are set.
	Programs Programs
	// Start starts a program that writes its log to a file.
	Start func(log string, command ...string) (Process, error)
	// Retry is how often the stand-in looks again for a free subnet; 30 s if 0, as the cluster manager does.
	Retry time.Duration
	// Log gets what fails.
	Log io.Writer
}

// A Side is the Linux side of the hybrid overlay in a cluster.
type Side struct {
	options Options
	clients kubernetes.Interface
	backend backend

	mu     sync.Mutex
	hybrid bool     // whether hybrid overlay is on
	linux  []string // nodes of AddLinuxNode
}

// A backend is the stand-in or the programs.
type backend interface {
	// configure starts the cluster manager, the approver and the webhook again. The error is an *ExitError if the cluster manager refuses.
	configure(ctx context.Context, conf string, flags []string, hybridOverlay bool) error
	// ended is the error with which the cluster manager ended; nil while it runs.
	ended() error
	log() string
	stopManager()
	stop()
}

// Open creates what OVN-Kubernetes creates at its installation. Nothing runs before Configure.
func Open(ctx context.Context, o Options) (*Side, error) {
	s := &Side{options: o}
	var err error
	if s.clients, err = kubernetes.NewForConfig(o.Config); err != nil {
		return nil, err
	}
	server, err := listen()
	if err != nil {
		return nil, err
	}
	if err := install(ctx, s.clients, server); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	if o.Programs.set() {
		s.backend, err = newPrograms(o, server)
	} else {
		s.backend = newStandIn(s.clients, server, o)
	}
	return s, err
}

// Configure makes OVN-Kubernetes start with ovnkube.conf and flags. An *ExitError is why the cluster manager refuses it.
func (s *Side) Configure(ctx context.Context, conf string, flags ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hybrid = readSettings(conf, flags)["hybridoverlay.enabled"] == "true"
	if err := s.backend.configure(ctx, conf, flags, s.hybrid); err != nil {
		return err
	}
	for _, name := range s.linux {
		if err := s.writeLinuxNode(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Ended is the error with which the cluster manager ended; nil while it runs.
func (s *Side) Ended() error { return s.backend.ended() }

// StopManager ends the cluster manager until the next Configure.
func (s *Side) StopManager() { s.backend.stopManager() }

// Log is the end of the logs.
func (s *Side) Log() string { return s.backend.log() }

// Close ends everything.
func (s *Side) Close() {
	if s != nil && s.backend != nil {
		s.backend.stop()
	}
}

// linuxNodeTimeout is how long a Linux node may wait for its subnet.
const linuxNodeTimeout = time.Minute

// AddLinuxNode does what OVN-Kubernetes does on a Linux node whose Node exists: it waits for the node's subnet, and writes its gateway.
func (s *Side) AddLinuxNode(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, linuxNodeTimeout)
	defer cancel()
	for {
		n, err := s.clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading Node %s: %w", name, err)
		}
		if n.Annotations[NodeSubnetsAnnotation] != "" {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the subnet of Node %s: %w; %s", name, ctx.Err(), s.Log())
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.linux, name) {
		s.linux = append(s.linux, name)
	}
	return s.writeLinuxNode(ctx, name)
}

// writeLinuxNode writes what the program of a Linux node writes, as its user.
func (s *Side) writeLinuxNode(ctx context.Context, name string) error {
	n, err := s.clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	changes, err := LinuxAnnotations(n, s.hybrid)
	if err != nil {
		return err
	}
	if !s.hybrid { // a removed annotation that was not there is a change that the webhook refuses only if it was there
		changes = onlyReal(n, changes)
	}
	config := rest.CopyConfig(s.options.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: UserPrefix + name, Groups: []string{Group, "system:authenticated"}}
	as, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return annotate(ctx, as, name, changes)
}

func onlyReal(n *corev1.Node, changes Changes) Changes {
	for key, value := range changes {
		if old, had := n.Annotations[key]; value == nil && !had || value != nil && had && old == *value {
			delete(changes, key)
		}
	}
	return changes
}

// annotate writes annotations through nodes/status, as all of OVN-Kubernetes does.
func annotate(ctx context.Context, clients kubernetes.Interface, node string, changes Changes) error {
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": changes}})
	if err != nil {
		return err
	}
	_, err = clients.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && ignoreNotFound(err) != nil {
		return fmt.Errorf("annotating Node %s: %w", node, err)
	}
	return nil
}

// PlainConfig is ovnkube.conf as an administrator writes it where no operator does: the hybrid overlay with one range, and with a UDP
// port other than 4789 if it is not 0.
func PlainConfig(cluster, services, hybrid string, port int32) string {
	return fmt.Sprintf(`[default]
cluster-subnets=%q

[kubernetes]
service-cidrs=%q
ovn-config-namespace=%q
no-hostsubnet-nodes="kubernetes.io/os=windows"

[hybridoverlay]
enabled=true
cluster-subnets=%q
hybrid-overlay-vxlan-port="%d"
`, cluster, services, Namespace, hybrid, cmp.Or(port, 4789))
}
