//go:build linux

// Command prepare builds the programs for tests in the lab, and stores them in the cache: control planes, the template of
// Windows hosts, the payload, the operator, CoreDNS, metrics-server, a CSI driver, the Operator Lifecycle Manager, Helm,
// Cluster API, the controllers of vSphere and the Prometheus operators. Without it, the first test that needs a program builds
// it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/clusterapi"
	"github.com/windows-machine-config/wmco/lab/cluster/helm"
	"github.com/windows-machine-config/wmco/lab/cluster/prometheusoperator"
	"github.com/windows-machine-config/wmco/lab/cluster/vsphere"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/payload/build"
)

func main() {
	core := flag.Bool("core", false, "skip programs that only make e2e needs")
	tests := flag.Bool("conformance", false, "also build programs that make conformance needs")
	flag.Parse()
	minors := build.Minors()
	oldest := minors[:2] // for upgrades of clusters; all other tests use the newest
	o := testenv.Options{
		Network: testenv.NetworkLab, Components: append(testenv.NetworkHybridOverlay.Components(), "windows_exporter"),
		Minors: minors[len(minors)-1:], Log: os.Stderr,
	}
	if !*core {
		o.Components = append(o.Components, testenv.NetworkFlannel.Components()...)
		o.Components = append(o.Components, "csi-proxy", "azure-cloud-node-manager")
		o.Minors = append(o.Minors, oldest...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := testenv.Prepare(ctx, o)
	if err == nil && !*core {
		err = errors.Join(lab.PrepareOthers(ctx, os.Stderr, oldest...), buildOthers(ctx))
	}
	if err == nil && *tests {
		err = lab.PrepareTests(ctx, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func buildOthers(ctx context.Context) error {
	root, err := testenv.Repository(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wmco-prepare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	_, err = helm.New(ctx, root, dir, os.Stderr)
	_, err3 := helm.New3(ctx, root, dir, os.Stderr)
	return errors.Join(err, err3, prometheusoperator.Programs{Root: root, Dir: dir, Progress: os.Stderr}.BuildOthers(ctx),
		clusterapi.Programs{Root: root, Dir: dir, Progress: os.Stderr}.Build(ctx), vsphere.Programs{Root: root, Dir: dir, Progress: os.Stderr}.Build(ctx))
}
