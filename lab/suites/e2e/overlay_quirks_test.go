//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// createdNetworks is the file in which the overlay of a host stores its requests for networks.
const createdNetworks = `C:\k\cni\config\made-networks`

// quirkyService returns quirks that make the service return networks differently from how they were requested, and incomplete lists at first.
func quirkyService() hns.Quirks {
	return hns.Quirks{
		OmitsVNI: true, OmitsVXLANPort: true, RenamesAdapter: true, Adapters: []string{hostspec.Link}, RefusesHostRoute: true,
		ListsLate: 20 * time.Second, OmitsAddresses: true, OmitsVIPs: true, ListsStale: true,
	}
}

// setQuirks sets the quirks of the first host's Host Network Service before it joins.
func (x overlayTest) setQuirks() {
	x.t.Helper()
	must(x.t, x.Lab.Hosts()[0].HNS().SetQuirks(quirkyService()))
}

// addQuirks sets the quirks of the other hosts' services as well, like an update of Windows, and removes the overlay's stored
// requests there, like an upgrade. Then it restarts all services and the programs that use them. All existing objects must stay
// unchanged.
func (x overlayTest) addQuirks() {
	ctx := x.t.Context()
	hosts := x.Lab.Hosts()
	before := x.hostObjects()
	for _, h := range hosts[1:] {
		q := quirkyService()
		q.OmitsAdapter, q.NeedsAdapter, q.ListsLate = true, true, 0
		path, err := h.Path(createdNetworks)
		must(x.t, err)
		must(x.t, errors.Join(h.HNS().SetQuirks(q), os.Remove(path)))
	}
	for _, h := range hosts {
		must(x.t, h.HNS().Restart(ctx))
		must(x.t, h.KillService(ctx, desired.OverlayService))
	}
	// When the hosts have a route to a new node, the overlay has compared all networks.
	x.addLinuxNode()
	if diff := cmp.Diff(before, x.hostObjects()); diff != "" {
		x.t.Fatalf("networks, endpoints of pods and containers after a new node (-before +after): %s", diff)
	}
	x.expectAllReady()
	x.expectTraffic()
	if diff := cmp.Diff(before, x.hostObjects()); diff != "" {
		x.t.Errorf("networks, endpoints of pods and containers (-before +after): %s", diff)
	}
	for _, h := range hosts {
		log, err := h.ReadFile(guestapi.HostComputeLog)
		must(x.t, err)
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "HcnDeleteNetwork") {
				x.t.Errorf("a network of %s was deleted: %s", h.Name(), line)
			}
		}
		// The following tests need complete answers of the services.
		if err := h.HNS().SetQuirks(hns.Quirks{}); err != nil {
			x.t.Error(err)
		}
	}
}

// hostObjects returns the networks and the endpoints of pods of each host, and the containers of pods with their restarts.
func (x overlayTest) hostObjects() map[string]string {
	x.t.Helper()
	found := map[string]string{}
	for _, h := range x.Lab.Hosts() {
		for _, kind := range []hns.Kind{hns.Network, hns.Endpoint} {
			for _, o := range x.objects(h, kind) {
				if flags, _ := o["Flags"].(float64); kind == hns.Network || flags == 0 {
					found[fmt.Sprint(h.Name(), " ", kind, " ", o["ID"])] = fmt.Sprint(o["Name"])
				}
			}
		}
	}
	for _, pod := range x.webPods() {
		for _, c := range pod.Status.ContainerStatuses {
			found[pod.Name+" "+c.ContainerID] = fmt.Sprint(c.RestartCount)
		}
	}
	return found
}
