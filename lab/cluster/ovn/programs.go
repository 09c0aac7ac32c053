//go:build linux

package ovn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windows-machine-config/wmco/lab"
)

// Programs are the paths of OVN-Kubernetes' own programs, which are built from folder go-controller of its sources.
type Programs struct {
	// ClusterManager is the path of ovnkube, Identity that of ovnkube-identity.
	ClusterManager, Identity string
}

// Environment variables with the paths; make e2e-ovn sets them.
const (
	ClusterManagerVariable = "WMCO_OVNKUBE"
	IdentityVariable       = "WMCO_OVNKUBE_IDENTITY"
)

// FromEnvironment returns the programs whose paths are in the environment.
func FromEnvironment() Programs {
	return Programs{ClusterManager: os.Getenv(ClusterManagerVariable), Identity: os.Getenv(IdentityVariable)}
}

// Missing returns an error for each missing program, or nil if both exist.
func (p Programs) Missing() error {
	var failed error
	for _, program := range []struct{ variable, path string }{{ClusterManagerVariable, p.ClusterManager}, {IdentityVariable, p.Identity}} {
		if program.path == "" {
			failed = errors.Join(failed, fmt.Errorf("%s is not set", program.variable))
		} else if _, err := os.Stat(program.path); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", program.variable, err))
		}
	}
	return failed
}

func (p Programs) set() bool { return p.ClusterManager != "" }

// holder is the name under which the cluster manager holds its lease.
const holder = "lab"

// startTimeout limits the time until a program is ready. It takes 3 s on two busy cores.
const startTimeout = time.Minute

// programs is the backend that runs OVN-Kubernetes' own programs against the control plane.
type programs struct {
	options Options
	clients kubernetes.Interface
	webhook string // its address
	paths   string // PATH of the cluster manager

	mu                sync.Mutex
	manager, identity *lab.Program
	starts            int
	failure           error
}

// requiredTools returns the programs of Open vSwitch and OVN that the cluster manager requires in PATH when it starts. It does
// not run them.
func requiredTools() []string {
	return []string{"ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovn-nbctl", "ovn-sbctl", "ovn-appctl", "ovsdb-client", "ovsdb-tool"}
}

func newPrograms(o Options, server *webhookServer) (*programs, error) {
	if err := o.Programs.Missing(); err != nil {
		return nil, err
	}
	p := &programs{options: o, webhook: server.Addr().String(), paths: filepath.Join(o.Folder, "path")}
	var err error
	if p.clients, err = kubernetes.NewForConfig(o.ControlPlane.RESTConfig()); err != nil {
		return nil, err
	}
	certificates := filepath.Join(o.Folder, "webhook")
	err = errors.Join(
		server.Close(), os.MkdirAll(p.paths, 0o700), os.MkdirAll(certificates, 0o700),
		os.WriteFile(filepath.Join(certificates, "tls.crt"), server.cert, 0o600), os.WriteFile(filepath.Join(certificates, "tls.key"), server.key, 0o600),
	)
	for _, name := range requiredTools() {
		err = errors.Join(err, os.WriteFile(filepath.Join(p.paths, name), []byte("#!/bin/sh\nexit 0\n"), 0o700))
	}
	return p, err
}

func (p *programs) configure(ctx context.Context, conf string, flags []string, hybridOverlay bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	stop(&p.manager)
	stop(&p.identity)
	p.starts++
	if err := p.startIdentity(ctx, hybridOverlay); err != nil {
		return err
	}
	p.failure = p.startManager(ctx, conf, flags)
	return p.failure
}

func (p *programs) startIdentity(ctx context.Context, hybridOverlay bool) (err error) {
	host, port, err := net.SplitHostPort(p.webhook)
	if err != nil {
		return err
	}
	command := []string{
		p.options.Programs.Identity, "--kubeconfig", p.options.Kubeconfig, "--lease-namespace", Namespace,
		"--webhook-cert-dir", filepath.Join(p.options.Folder, "webhook"), "--webhook-host", host, "--webhook-port", port,
	}
	if hybridOverlay {
		command = append(command, "--enable-hybrid-overlay")
	}
	if p.identity, err = p.options.ControlPlane.Start(p.logOf("identity"), command...); err != nil {
		return fmt.Errorf("starting ovnkube-identity: %w", err)
	}
	return wait(ctx, p.identity, "ovnkube-identity", func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.webhook)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

func (p *programs) startManager(ctx context.Context, conf string, flags []string) (err error) {
	file := filepath.Join(p.options.Folder, "ovnkube.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return err
	}
	before, err := p.lease(ctx)
	if err != nil {
		return err
	}
	command := []string{
		"/usr/bin/env", "PATH=" + p.paths + ":/usr/sbin:/usr/bin:/sbin:/bin", p.options.Programs.ClusterManager, "--init-cluster-manager", holder,
		"--config-file", file, "--k8s-kubeconfig", p.options.Kubeconfig, "--ovn-config-namespace", Namespace, "--loglevel", "5",
	}
	p.manager, err = p.options.ControlPlane.Start(p.logOf("cluster-manager"), append(command, flags...)...)
	if err != nil {
		return fmt.Errorf("starting ovnkube: %w", err)
	}
	// The cluster manager is ready when it has taken or renewed its lease.
	return wait(ctx, p.manager, "ovnkube", func(ctx context.Context) error {
		now, err := p.lease(ctx)
		if err == nil && (now == nil || before != nil && now.ResourceVersion == before.ResourceVersion) {
			err = errors.New("the cluster manager does not hold its lease")
		}
		return err
	})
}

// lease returns the lease of the cluster manager, or nil before its first start.
func (p *programs) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	list, err := p.clients.CoordinationV1().Leases(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i, l := range list.Items {
		if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == holder {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// wait waits until a program is ready or exits.
func wait(ctx context.Context, p *lab.Program, name string, ready func(context.Context) error) error {
	err := lab.Until(ctx, 20*time.Millisecond, name, ready, p.Failure)
	if failure := p.Failure(); err != nil && failure != nil {
		return exitError(failure, p)
	}
	if err != nil {
		return fmt.Errorf("%w; end of its log:\n%s", err, p.Log(2000))
	}
	return nil
}

// exitError returns the error of a program that has exited, with the last line of its log.
func exitError(err error, process *lab.Program) error {
	_, status, _ := strings.Cut(err.Error(), "exit status ")
	code, scanErr := strconv.Atoi(status)
	if scanErr != nil {
		code = -1 // a signal
	}
	lines := strings.Split(strings.TrimSpace(process.Log(4000)), "\n")
	return &ExitError{Code: code, Text: lines[len(lines)-1]}
}

func (p *programs) logOf(name string) string {
	return filepath.Join(p.options.Folder, fmt.Sprintf("%s-%d.log", name, p.starts))
}

func (p *programs) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil && p.manager != nil {
		if err := p.manager.Failure(); err != nil {
			p.failure = exitError(err, p.manager)
		}
	}
	return p.failure
}

func (p *programs) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text string
	if p.manager != nil {
		text = "end of ovnkube's log:\n" + p.manager.Log(4000)
	}
	if p.identity != nil {
		text += "\nend of ovnkube-identity's log:\n" + p.identity.Log(4000)
	}
	return text
}

func (p *programs) stopManager() {
	p.mu.Lock()
	defer p.mu.Unlock()
	stop(&p.manager)
}

func (p *programs) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	stop(&p.manager)
	stop(&p.identity)
}

func stop(process **lab.Program) {
	if *process != nil {
		(*process).Stop()
		*process = nil
	}
}
