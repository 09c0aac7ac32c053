// Hybrid-overlay-node connects the pods of a Windows host with those of the other nodes of an OVN-Kubernetes cluster. It is a Windows service
// with the flags of OVN-Kubernetes' program of the same name; see package overlay.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

const service = "hybrid-overlay-node"

// gcPercent is the heap growth in percent between garbage collections. Nearly all of the heap is garbage from decoding Nodes.
const gcPercent = 40

func main() {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := overlay.Main(ctx, overlay.Call{
		Args:     os.Args[1:],
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		HNS:      networks,
		Routes:   routes(),
		Adapters: adapters(),
		Serve: func(run func(context.Context)) error {
			return scm.Serve(service, func(ctx context.Context) uint32 { run(ctx); return 0 })
		},
	})
	stop()
	os.Exit(code)
}
