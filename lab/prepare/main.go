//go:build linux

// Command prepare builds what tests of the lab run, and keeps it in the cache: the control plane, the template of Windows hosts, the
// payload and the operator. Without it the first test that needs something builds it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/windows-machine-config/wmco/lab/world"
)

func main() {
	core := flag.Bool("core", false, "leave out what only make e2e needs")
	flag.Parse()
	o := world.Options{Pods: true, Overlay: true, Log: os.Stderr}
	if !*core {
		o.Flannel, o.Components = true, []string{"windows_exporter"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := world.Prepare(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}
