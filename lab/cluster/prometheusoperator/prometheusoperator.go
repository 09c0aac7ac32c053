//go:build linux

// Package prometheusoperator runs the Prometheus operator against a control plane of the lab, in the versions of supported
// clusters. It also runs kube-state-metrics, and a program for Kubernetes service discovery, which Debian's Prometheus lacks.
package prometheusoperator

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

const module = "github.com/prometheus-operator/prometheus-operator"

// A Version is a minor version of the Prometheus operator. The folder with the same name has its go.mod.
type Version string

// Oldest and Newest are the versions that can be run. The others only provide CustomResourceDefinitions.
const (
	Oldest Version = "0.85"
	Newest Version = "0.93"
)

// Versions returns the versions of supported clusters: those of OpenShift 4.20, 4.21 and 4.22, and the newest one.
func Versions() []Version { return []Version{Oldest, "0.87", "0.90", Newest} }

// Kinds returns all kinds of the Prometheus operator, as in the names of their files.
func Kinds() []string {
	return []string{
		"alertmanagerconfigs", "alertmanagers", "podmonitors", "probes", "prometheusagents", "prometheuses", "prometheusrules", "scrapeconfigs", "servicemonitors",
		"thanosrulers",
	}
}

// Definitions returns the CustomResourceDefinitions of kinds. root is the folder of the repository.
func (v Version) Definitions(ctx context.Context, root string, kinds ...string) ([]*unstructured.Unstructured, error) {
	var files []string
	for _, kind := range kinds {
		files = append(files, "example/prometheus-operator-crd/monitoring.coreos.com_"+kind+".yaml")
	}
	return manifest.ReadModule(ctx, v.folder(root), module, files...)
}

func (v Version) folder(root string) string {
	return filepath.Join(root, "lab", "cluster", "prometheusoperator", string(v))
}

// Programs builds programs into a folder, and starts them.
type Programs struct {
	// Root is the folder of the repository, Dir the one for programs and logs.
	Root, Dir string
	// Progress gets a line for each long operation.
	Progress io.Writer
}

// A program belongs to the module of a version.
type program struct {
	version   Version
	pkg, name string
}

func operator(v Version) program {
	return program{v, module + "/cmd/operator", "prometheus-operator-" + string(v)}
}

func kubeState() program {
	return program{Newest, "k8s.io/kube-state-metrics/v2", "kube-state-metrics"}
}

func discovery() program { return program{Newest, "./discovery", "discovery"} }

// BuildDiscovery builds the program that Discovery starts.
func (p Programs) BuildDiscovery(ctx context.Context) error {
	_, err := p.build(ctx, discovery())
	return err
}

// BuildOthers builds the other programs, which takes minutes the first time.
func (p Programs) BuildOthers(ctx context.Context) error {
	for _, other := range []program{operator(Oldest), operator(Newest), kubeState()} {
		if _, err := p.build(ctx, other); err != nil {
			return err
		}
	}
	return nil
}

// Operator starts the Prometheus operator, which maintains the Endpoints and EndpointSlices of Service kube-system/kubelet.
func (p Programs) Operator(ctx context.Context, cp *lab.ControlPlane, v Version, kubeconfig string) (*lab.Program, error) {
	return p.start(ctx, cp, operator(v), kubeconfig,
		"--web.listen-address=127.0.0.1:0", "--kubelet-service=kube-system/kubelet", "--kubelet-endpoints=true", "--kubelet-endpointslice=true")
}

// KubeState starts kube-state-metrics, which serves metrics of pods at address and port.
func (p Programs) KubeState(ctx context.Context, cp *lab.ControlPlane, kubeconfig, address, port string) (*lab.Program, error) {
	return p.start(ctx, cp, kubeState(), kubeconfig,
		"--kubeconfig="+kubeconfig, "--resources=pods", "--host="+address, "--port="+port, "--telemetry-host=127.0.0.1", "--telemetry-port=0")
}

// Discovery starts the program that discovers the targets of a Prometheus configuration and writes them to files in folder out.
// TargetsFile returns the names of the files.
func (p Programs) Discovery(ctx context.Context, cp *lab.ControlPlane, config []byte, kubeconfig, out string) (*lab.Program, error) {
	file := filepath.Join(out, "discovery.config")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	return p.start(ctx, cp, discovery(), kubeconfig, "-config="+file, "-kubeconfig="+kubeconfig, "-out="+out)
}

// TargetsFile returns the name of the file to which Discovery writes the targets of a job.
func TargetsFile(job string) string { return strings.ReplaceAll(job, "/", "_") + ".json" }

// start starts a program. It sets KUBECONFIG because some programs have no flag for the kubeconfig.
func (p Programs) start(ctx context.Context, cp *lab.ControlPlane, run program, kubeconfig string, flags ...string) (*lab.Program, error) {
	path, err := p.build(ctx, run)
	if err != nil {
		return nil, err
	}
	running, err := cp.Start(path+".log", append([]string{"/usr/bin/env", "KUBECONFIG=" + kubeconfig, path}, flags...)...)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", run.name, err)
	}
	return running, nil
}

// build returns the path of a program. It builds a program only once, because the file of a running program cannot be overwritten.
func (p Programs) build(ctx context.Context, built program) (path string, err error) {
	path = filepath.Join(p.Dir, built.name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, lab.BuildProgram(ctx, built.version.folder(p.Root), built.pkg, path, lab.BuildOptions{}, p.Progress)
}
