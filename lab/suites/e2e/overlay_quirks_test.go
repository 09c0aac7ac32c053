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

// madeNetworks is where the overlay of a host stores its requests.
const madeNetworks = `C:\k\cni\config\made-networks`

// unkindService returns quirks with which networks are returned in other words than they were requested in, and with few objects at first.
func unkindService() hns.Quirks {
	return hns.Quirks{
		OmitsVNI: true, OmitsVXLANPort: true, RenamesAdapter: true, Adapters: []string{hostspec.Link}, RefusesHostRoute: true,
		ListsLate: 20 * time.Second, OmitsAddresses: true, OmitsVIPs: true, ListsStale: true,
	}
}

// makeUnkind makes the first host's Host Network Service unkind from the beginning.
func (x overlayTest) makeUnkind() {
	x.t.Helper()
	must(x.t, x.Lab.Hosts()[0].HNS().SetQuirks(unkindService()))
}

// keepUnkind makes the other hosts' services unkind, too, as an update of Windows would, and restarts all of them and the programs that use them.
// There, the overlay no longer knows its requests, as after an upgrade. All existing objects must stay unchanged.
func (x overlayTest) keepUnkind() {
	ctx := x.t.Context()
	hosts := x.Lab.Hosts()
	before := x.hostObjects()
	for _, h := range hosts[1:] {
		q := unkindService()
		q.OmitsAdapter, q.NeedsAdapter, q.ListsLate = true, true, 0
		made, err := h.Path(madeNetworks)
		must(x.t, err)
		must(x.t, errors.Join(h.HNS().SetQuirks(q), os.Remove(made)))
	}
	for _, h := range hosts {
		must(x.t, h.HNS().Restart(ctx))
		must(x.t, h.KillService(ctx, desired.OverlayService))
	}
	// Once the hosts have the subnet of a new node, they have compared all their networks.
	x.linuxNodeComes()
	if diff := cmp.Diff(before, x.hostObjects()); diff != "" {
		x.t.Fatalf("networks, endpoints of pods, and containers: %s", diff)
	}
	x.expectAllReady()
	x.expectTraffic()
	if diff := cmp.Diff(before, x.hostObjects()); diff != "" {
		x.t.Errorf("networks, endpoints of pods, and containers: %s", diff)
	}
	for _, h := range hosts {
		log, err := h.ReadFile(guestapi.HostComputeLog)
		must(x.t, err)
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "HcnDeleteNetwork") {
				x.t.Errorf("%s: %s", h.Name(), line)
			}
		}
		// The following steps need services that return all objects.
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
