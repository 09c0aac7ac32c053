//go:build linux

// Package vsphere runs what makes nodes of virtual machines of vSphere: the controllers of OpenShift's Machine API for vSphere, and vSphere's
// cloud-controller-manager. Their cloud is the one of package vcenter.
package vsphere

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

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
		pins := filepath.Join(p.Root, "lab", "vsphere", one.module)
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
		health, err := lab.FreePort(Loopback)
		if err != nil {
			return all, err
		}
		at := net.JoinHostPort(Loopback, strconv.Itoa(health))
		flags := map[string][]string{
			"vsphere":             {"--namespace=" + Namespace, "--metrics-bind-address=0", "--health-addr=" + at},
			"machineset":          {"--namespace=" + Namespace, "--metrics-bind-address=0", "--health-addr=" + at, "--webhook-enabled=false"},
			"machine-healthcheck": {"--namespace=" + Namespace, "--metrics-bind-address=0", "--health-addr=" + at},
			"nodelink-controller": {"--namespace=" + Namespace},
			"vsphere-cloud-controller-manager": {
				"--cloud-provider=vsphere", "--cloud-config=" + config, "--kubeconfig=" + kubeconfig, "--leader-elect=false", "--v=4",
				"--bind-address=" + Loopback, "--secure-port=" + strconv.Itoa(health), "--controllers=cloud-node,cloud-node-lifecycle",
			},
		}
		command := append([]string{"/usr/bin/env", "KUBECONFIG=" + kubeconfig, p.path(one)}, flags[one.name()]...)
		running, err := cp.Start(p.path(one)+".log", command...)
		if err != nil {
			return all, fmt.Errorf("starting %s: %w", one.name(), err)
		}
		all = append(all, running)
		if one.name() == "nodelink-controller" { // which has no health
			continue
		}
		if err := waitHealthy(ctx, running, at); err != nil {
			return all, fmt.Errorf("waiting for %s: %w; its log ends with:\n%s", one.name(), err, running.Log(3000))
		}
	}
	return all, nil
}

// waitHealthy waits until a program answers, by HTTP or HTTPS.
func waitHealthy(ctx context.Context, running *lab.Program, at string) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, lab.Patience(startTimeout), true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/healthz", nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, running.Failure() // it does not listen yet
		}
		// A server of HTTPS answers a request of HTTP with "400 Bad Request".
		return answer.StatusCode < http.StatusInternalServerError, answer.Body.Close()
	})
}
