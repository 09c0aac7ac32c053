//go:build linux

// Command prepare builds the programs for the tests of the lab and stores them in the cache: the control plane, the template of
// Windows hosts, the payload, the operator, CoreDNS and Helm. Otherwise the first test that needs one builds it.
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
	"github.com/windows-machine-config/wmco/lab/helm"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

func main() {
	core := flag.Bool("core", false, "leave out what only make e2e needs")
	tests := flag.Bool("conformance", false, "also build what make conformance needs")
	flag.Parse()
	o := testenv.Options{
		Network: testenv.NetworkLab, Components: append(testenv.NetworkHybridOverlay.Components(), "windows_exporter"), Minors: []string{"1.33", "1.36"}, Log: os.Stderr,
	}
	if !*core {
		o.Components = append(o.Components, testenv.NetworkFlannel.Components()...)
		o.Minors = append(o.Minors, "1.34")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := testenv.Prepare(ctx, o)
	if err == nil && !*core {
		err = errors.Join(lab.PrepareDNS(ctx, os.Stderr), buildHelm(ctx))
	}
	if err == nil && *tests {
		err = lab.PrepareTests(ctx, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func buildHelm(ctx context.Context) error {
	root, err := testenv.Repository(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wmco-prepare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err = helm.New(ctx, root, dir, os.Stderr); err != nil {
		return err
	}
	_, err = helm.New3(ctx, root, dir, os.Stderr)
	return err
}
