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

// Namespace is that of OVN-Kubernetes.
const Namespace = "openshift-ovn-kubernetes"

// Options are the options of a Side.
type Options struct {
	ControlPlane *lab.ControlPlane
	// Kubeconfig is that of a cluster administrator.
	Kubeconfig string
	// Folder is for the files of programs.
	Folder string
	// Programs are run instead of the stand-in, if they are set.
	Programs Programs
	// Retry is how often the stand-in looks again for a free subnet; 30 s if 0, as the cluster manager does.
	Retry time.Duration
	// Log gets what fails; nothing does if it is nil.
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
		fmt.Fprintln(o.Log, "the programs of Linux nodes:", err)
	}}
	s.ended.Go(func() { s.linux.follow(all) })
	return s, nil
}

// Configure makes OVN-Kubernetes start with ovnkube.conf and flags. An *ExitError is why the cluster manager refuses it.
func (s *Side) Configure(ctx context.Context, conf string, flags ...string) error {
	hybrid := readSettings(conf, flags)["hybridoverlay.enabled"] == "true"
	if !hybrid {
		if err := s.linux.leave(ctx); err != nil {
			return err
		}
	}
	err := s.backend.configure(ctx, conf, flags, hybrid)
	s.linux.hybrid.Store(hybrid)
	s.linux.changed.send()
	return err
}

// Ended is the error with which the cluster manager ended; nil while it runs.
func (s *Side) Ended() error { return s.backend.ended() }

// StopManager ends the cluster manager until the next Configure.
func (s *Side) StopManager() { s.backend.stopManager() }

// Log is the end of the logs.
func (s *Side) Log() string { return s.backend.log() }

// Close ends everything.
func (s *Side) Close() {
	if s != nil {
		s.endAll()
		s.ended.Wait()
		s.backend.stop()
	}
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
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotating Node %s: %w", node, err)
	}
	return nil
}
