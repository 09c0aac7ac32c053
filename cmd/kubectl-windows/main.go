// Command kubectl-windows is the kubectl plugin "windows". It shows and manages the Windows nodes of a cluster from an administrator's machine.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // for maintenance windows on machines without time zone data

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // login methods of kubeconfigs: OIDC and exec plugins
	"k8s.io/klog/v2"

	"github.com/windows-machine-config/wmco/internal/cli"
)

// version returns the git tag that this program was built from, as stamped by the go command (-buildvcs).
func version() string {
	info, known := debug.ReadBuildInfo()
	if !known || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(logr.Discard()) // the command reports errors itself
	os.Exit(cli.Run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, version()))
}
