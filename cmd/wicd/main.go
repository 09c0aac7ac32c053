// Wicd is the operator's program on a Windows host. The operator runs it over SSH to inspect the host, to transfer files and to configure the
// node. As a Windows service it maintains that configuration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

func main() {
	if code, isChild := win.Child(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); isChild {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	path, _ := os.Executable() // without its path, WICD cannot know which of its files is in use
	code := daemon.Main(ctx, daemon.Call{
		Path:    path,
		Args:    os.Args[1:],
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Host:    machine,
		Program: openProgram,
		Serve:   func(run func(context.Context) uint32) error { return scm.Serve(api.WICDService, run) },
		Contain: win.Contain,
	})
	stop()
	os.Exit(code)
}

func machine() (hostapi.Host, error) {
	h, err := win.Host()
	if errors.Is(err, errors.ErrUnsupported) {
		return hostapi.Host{}, fmt.Errorf("WICD runs on Windows only: %w", err)
	}
	return h, err
}

func openProgram() (io.ReadCloser, error) {
	name, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}
