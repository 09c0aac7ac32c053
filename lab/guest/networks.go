//go:build windows

package main

import (
	"fmt"
	"os"

	"github.com/windows-machine-config/wmco/lab/guestapi"
	"github.com/windows-machine-config/wmco/lab/hns"
	"golang.org/x/sys/windows/svc"
)

// networksService is Windows' name of the service.
const networksService = "hns"

// serveNetworks is the service of networks. It only runs: calls are handled in the processes that make them, while it does.
func serveNetworks() error {
	if err := svc.Run(networksService, networksHandler{}); err != nil {
		return fmt.Errorf("running as a service: %w", err)
	}
	return nil
}

type networksHandler struct{}

// Execute implements svc.Handler.
func (networksHandler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending}
	store := hns.Store{Dir: guestapi.NetworksDir}
	stop, err := store.Serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hns:", err)
		return true, 1
	}
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- running
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- running
		case svc.Stop, svc.Shutdown:
			_ = stop()
			return false, 0
		}
	}
	return false, 0
}
