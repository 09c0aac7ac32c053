package win

import (
	"fmt"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Host returns the Windows that this program runs on. Call it once per process: each call uses one of the two thousand callbacks that Go can give to
// Windows.
func Host() (hostapi.Host, error) {
	folder, err := windows.GetSystemDirectory()
	if err != nil {
		return hostapi.Host{}, fmt.Errorf("finding the system folder of Windows: %w", err)
	}
	changes := scm.NewChanges()
	networks := network.NewHNS(changes)
	return hostapi.Host{
		System:       &system{shutdown: folder + `\shutdown.exe`},
		Rights:       rights{},
		Services:     &services{timeout: time.Minute, silence: 30 * time.Second, grace: 2 * time.Minute},
		Changes:      changes,
		Programs:     programs{},
		Probes:       probes{},
		Runtime:      containerRuntime{pipe: desired.RuntimePipe},
		Environment:  environment{timeout: 5 * time.Second},
		Certificates: certificates{},
		Containers:   newContainers(networks),
		NextStart:    nextStart{},
		Firewall:     firewall{},
		Defender:     defender{wmi: newWMI(30 * time.Second)},
		Accounts:     accounts{},
		Routes:       newRoutes(),
		Adapters:     network.Interfaces{},
		Networks:     networks,
		EndpointACLs: networks,
		HNSState:     hnsState{},
		Pipes:        pipes{},
		EventLogs:    newEventLogs(),
		Inventory:    inventory{},
		UpdateAgent:  updateAgent{},
		Disk:         hostapi.Disk{},
	}, nil
}

// system is Windows without its services.
type system struct {
	// shutdown is the path of shutdown.exe.
	shutdown string
}
