// Command kubectl-windows is kubectl windows: it shows and manages the Windows nodes of a cluster from the machine of an
// administrator.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // for maintenance windows, where the machine has no time zones

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // how kubeconfigs log in: OIDC, and programs
	"k8s.io/klog/v2"

	"github.com/windows-machine-config/wmco/internal/cli"
)

// version is that of the git tag that this program was built from, as the go command stamps it (-buildvcs).
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
	klog.SetLogger(logr.Discard()) // what fails is said once, by the command
	os.Exit(cli.Run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, version()))
}
