// Hybrid-overlay-node connects the pods of a Windows host with those of the other nodes of a cluster with OVN-Kubernetes. It is a
// Windows service, takes the flags of OVN-Kubernetes' program of the same name, and does its work.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/windows-machine-config/wmco/internal/overlay"
	"github.com/windows-machine-config/wmco/internal/win/scm"
)

// service is the name of the service.
const service = "hybrid-overlay-node"

// collectEarly makes the heap grow by that many percent between collections: nearly all of it is garbage, what was read of Nodes.
const collectEarly = 40

func main() {
	debug.SetGCPercent(collectEarly)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := overlay.Main(ctx, overlay.Call{
		Args:   os.Args[1:],
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		HNS:    networks,
		Routes: routes{},
		Serve:  func(run func(context.Context)) error { return scm.Serve(service, run) },
	})
	stop()
	os.Exit(code)
}
