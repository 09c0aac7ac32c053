//go:build linux

// Package vsphere runs what makes nodes of virtual machines of vSphere: the controllers of OpenShift's Machine API for vSphere, and vSphere's
// cloud-controller-manager. Their cloud is that of package vcenter.
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
	// startTimeout is how long a program may take until it is ready; on two busy cores it takes 10 s.
	startTimeout = 2 * time.Minute
)

// Programs builds the controllers into a folder, and starts them.
type Programs struct {
	// Root is the folder of the repository, Dir the one for programs, configuration and logs.
	Root, Dir string
	// Progress gets a line for each long operation.
	Progress io.Writer
}

// program is a program of one of the modules below this folder.
type program struct{ module, pkg string }

func (p program) name() string { return filepath.Base(p.pkg) }

// programs are all of them, in the order in which they are started.
func programs() []program {
	return []program{
		{"machineapi", machineAPI + "vsphere"}, {"machineapi", machineAPI + "machineset"}, {"machineapi", machineAPI + "nodelink-controller"},
		{"machineapi", machineAPI + "machine-healthcheck"}, {"cloudprovider", cloudProvider},
	}
}

// Build builds all programs, which takes minutes the first time.
func (p Programs) Build(ctx context.Context) error {
	for _, one := range programs() {
		pins := filepath.Join(p.Root, "lab", "cluster", "vsphere", one.module)
		if err := lab.BuildOwn(ctx, pins, one.pkg, p.path(one), lab.BuildOptions{}, p.Progress); err != nil {
			return err
		}
	}
	return nil
}

func (p Programs) path(one program) string { return filepath.Join(p.Dir, "vsphere-"+one.name()) }

// Started are running controllers.
type Started []*lab.Program

// Stop ends them.
func (s Started) Stop() {
	for _, one := range s {
		one.Stop()
	}
}

// Log is the end of the logs of all of them.
func (s Started) Log() string {
	const each = 6000
	var all strings.Builder
	for _, one := range s {
		all.WriteString(one.Log(each) + "\n\n")
	}
	return all.String()
}

// Start starts the controllers with the rights of a kubeconfig, and returns when they run. Install must have installed what they read.
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
	for _, one := range programs() {
		port, err := lab.FreePort(Loopback)
		if err != nil {
			return all, err
		}
		flags, health := one.flags(port, config, kubeconfig)
		running, err := cp.Start(p.path(one)+".log", append([]string{"/usr/bin/env", "KUBECONFIG=" + kubeconfig, p.path(one)}, flags...)...)
		if err != nil {
			return all, fmt.Errorf("starting %s: %w", one.name(), err)
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

// flags are those of a program, and the URL of its health at a port of the loopback network; "" for the one that has none.
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
