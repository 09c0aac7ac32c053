//go:build linux

// Package vsphere runs the controllers that turn virtual machines of vSphere into nodes: those of OpenShift's Machine API, and
// vSphere's cloud-controller-manager. Package vcenter simulates their cloud.
package vsphere

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/lab"
)

const (
	machineAPI    = "github.com/openshift/machine-api-operator/cmd/"
	cloudProvider = "k8s.io/cloud-provider-vsphere/cmd/vsphere-cloud-controller-manager"
	// startTimeout limits the time until a program is ready. It takes 10 s on two busy cores.
	startTimeout = 2 * time.Minute
)

// Programs builds the controllers into a folder, and starts them.
type Programs struct {
	// Root is the folder of the repository, Dir the one for programs, configuration and logs.
	Root, Dir string
	// Progress gets a line for each long operation.
	Progress io.Writer
}

// A program belongs to one of the modules below this folder.
type program struct{ module, pkg string }

func (p program) name() string { return filepath.Base(p.pkg) }

// programs returns all programs, in the order in which they are started.
func programs() []program {
	return []program{
		{"machineapi", machineAPI + "vsphere"}, {"machineapi", machineAPI + "machineset"}, {"machineapi", machineAPI + "nodelink-controller"},
		{"machineapi", machineAPI + "machine-healthcheck"}, {"cloudprovider", cloudProvider},
	}
}

// Build builds all programs, which takes minutes the first time.
func (p Programs) Build(ctx context.Context) error {
	for _, controller := range programs() {
		pins := filepath.Join(p.Root, "lab", "cluster", "vsphere", controller.module)
		if err := lab.BuildProgram(ctx, pins, controller.pkg, p.path(controller), lab.BuildOptions{}, p.Progress); err != nil {
			return err
		}
	}
	return nil
}

func (p Programs) path(one program) string { return filepath.Join(p.Dir, "vsphere-"+one.name()) }

// Started are the running controllers.
type Started []*lab.Program

// Stop stops them.
func (s Started) Stop() {
	for _, controller := range s {
		controller.Stop()
	}
}

// Log returns the end of each log.
func (s Started) Log() string {
	const each = 6000
	var all strings.Builder
	for _, controller := range s {
		all.WriteString(controller.Log(each) + "\n\n")
	}
	return all.String()
}

// Start starts the controllers with the permissions of a kubeconfig, and returns when they are ready. Install must have
// succeeded before.
func (p Programs) Start(ctx context.Context, cp *lab.ControlPlane, kubeconfig, vcenter string) (Started, error) {
	if err := p.Build(ctx); err != nil {
		return nil, err
	}
	content, err := cloudConfig(vcenter)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(p.Dir, "vsphere.conf")
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return nil, err
	}
	var all Started
	for _, controller := range programs() {
		port, err := lab.FreePort(Loopback)
		if err != nil {
			return all, err
		}
		flags, health := controller.flags(port, config, kubeconfig)
		running, err := cp.Start(p.path(controller)+".log", append([]string{"/usr/bin/env", "KUBECONFIG=" + kubeconfig, p.path(controller)}, flags...)...)
		if err != nil {
			return all, fmt.Errorf("starting %s: %w", controller.name(), err)
		}
		all = append(all, running)
		if health == "" {
			continue
		}
		if err := running.WaitHealthy(ctx, health, startTimeout); err != nil {
			return all, err
		}
	}
	return all, nil
}

// flags returns the flags of a program, and the URL of its health check, which it serves at a port of the loopback address.
// health is "" if the program has no health check.
func (p program) flags(port int, config, kubeconfig string) (flags []string, health string) {
	at := net.JoinHostPort(Loopback, strconv.Itoa(port))
	if p.pkg == cloudProvider {
		return []string{
			"--cloud-provider=vsphere", "--cloud-config=" + config, "--kubeconfig=" + kubeconfig, "--leader-elect=false", "--v=4",
			"--bind-address=" + Loopback, "--secure-port=" + strconv.Itoa(port), "--controllers=cloud-node,cloud-node-lifecycle",
		}, "https://" + at + "/healthz"
	}
	flags = []string{"--namespace=" + Namespace}
	if p.name() == "nodelink-controller" {
		return flags, ""
	}
	flags = append(flags, "--metrics-bind-address=0", "--health-addr="+at)
	if p.name() == "machineset" {
		flags = append(flags, "--webhook-enabled=false")
	}
	return flags, "http://" + at + "/healthz"
}
