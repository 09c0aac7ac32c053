//go:build linux

package ovn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/windows-machine-config/wmco/lab"
)

// Namespace is the namespace of OVN-Kubernetes.
const Namespace = "openshift-ovn-kubernetes"

// Options are the options of a Side.
type Options struct {
	ControlPlane *lab.ControlPlane
	// Kubeconfig is the path of a cluster administrator's kubeconfig.
	Kubeconfig string
	// Folder is the folder for the files of the programs.
	Folder string
	// Programs run instead of the stand-in, if they are set.
	Programs Programs
	// Retry is how often the stand-in retries to find a free subnet. If 0, it is 30 s, like that of the cluster manager.
	Retry time.Duration
	// Log receives errors. If nil, they are discarded.
	Log io.Writer
}

// A Side is the Linux side of the hybrid overlay in a cluster.
type Side struct {
	backend backend
	linux   *linuxNodes
	endAll  context.CancelFunc
	ended   sync.WaitGroup
}

// A backend is the stand-in or the programs.
type backend interface {
	// configure restarts the cluster manager, the approver and the webhook. The error is an *ExitError if the cluster manager exits.
	configure(ctx context.Context, conf string, flags []string, hybridOverlay bool) error
	// ended returns the error with which the cluster manager exited, or nil while it runs.
	ended() error
	log() string
	stopManager()
	stop()
}

// Open creates the objects that OVN-Kubernetes' installation creates. Configure starts the cluster manager.
func Open(ctx context.Context, o Options) (*Side, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	config := o.ControlPlane.RESTConfig()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	server, err := listen()
	if err != nil {
		return nil, err
	}
	if err := install(ctx, clients, server); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	s := &Side{}
	if o.Programs.set() {
		p, err := newPrograms(o, server)
		if err != nil {
			return nil, err
		}
		s.backend = p
	} else {
		s.backend = newStandIn(clients, server, o)
	}
	all, end := context.WithCancel(context.Background())
	s.endAll = end
	s.linux = &linuxNodes{config: config, clients: clients, changed: make(signal, 1), failed: func(err error) {
		fmt.Fprintln(o.Log, "simulating the programs of Linux nodes:", err)
	}}
	s.ended.Go(func() { s.linux.run(all) })
	return s, nil
}

// Configure starts or restarts OVN-Kubernetes with the content of ovnkube.conf and flags. It returns an *ExitError if the
// cluster manager rejects them.
func (s *Side) Configure(ctx context.Context, conf string, flags ...string) error {
	hybrid := readSettings(conf, flags)["hybridoverlay.enabled"] == "true"
	if !hybrid {
		if err := s.linux.removeGateways(ctx); err != nil {
			return err
		}
	}
	err := s.backend.configure(ctx, conf, flags, hybrid)
	s.linux.hybrid.Store(hybrid)
	s.linux.changed.send()
	return err
}

// Ended returns the error with which the cluster manager exited, or nil while it runs.
func (s *Side) Ended() error { return s.backend.ended() }

// StopManager stops the cluster manager until the next Configure.
func (s *Side) StopManager() { s.backend.stopManager() }

// Log returns the end of the logs.
func (s *Side) Log() string { return s.backend.log() }

// Close stops all programs.
func (s *Side) Close() {
	if s != nil {
		s.endAll()
		s.ended.Wait()
		s.backend.stop()
	}
}

// annotate writes annotations through nodes/status, like all programs of OVN-Kubernetes.
func annotate(ctx context.Context, clients kubernetes.Interface, node string, changes Changes) error {
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": changes}})
	if err != nil {
		return err
	}
	_, err = clients.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotating Node %s: %w", node, err)
	}
	return nil
}
