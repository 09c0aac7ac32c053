package daemon_test

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestNoPodIsEndedForQuirks simulates hours of a node on many kinds of Windows whose Host Network Service restarts, lists objects late or without
// some fields, or lists removed ones. Nothing was lost, so no pod is ended and nothing is removed.
func TestNoPodIsEndedForQuirks(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quirks := sim.QuirksByChance(seed).Network
				quirks.Ports, quirks.NeedsAdapter = 0, false // these lose load balancers, and the network
				o := newOverlaid(t, 5)
				time.Sleep(time.Minute)
				for i := range 6 {
					o.putPod(t, i)
				}
				time.Sleep(time.Minute)
				before := o.hns.State()
				process, containers := o.windows.Service("kube-proxy").PID, len(o.windows.Remnants())
				o.hns.SetQuirks(quirks)
				o.hns.ResetCalls()
				for range 3 {
					o.hns.Restart(false)
					time.Sleep(15 * time.Minute)
				}
				after, calls := o.hns.State(), o.hns.Calls()
				if calls["CreateEndpoint"] > 0 || len(after.Endpoints) != len(before.Endpoints) || len(after.LoadBalancers) != len(before.LoadBalancers) {
					t.Errorf("calls %v, %d endpoints and %d load balancers of %d and %d; %+v", calls, len(after.Endpoints), len(after.LoadBalancers),
						len(before.Endpoints), len(before.LoadBalancers), quirks)
				}
				if got := o.windows.Remnants(); len(got) != containers {
					t.Errorf("there are containers %v, want %d; the condition is %+v; %+v", got, containers, o.condition(), quirks)
				}
				// A Host Network Service that starts late is more than a quirk for kube-proxy: all its objects seem gone, and it is restarted.
				if pid := o.windows.Service("kube-proxy").PID; quirks.StartsLate == 0 && (pid != process || calls["Remove"] > 0) {
					t.Errorf("kube-proxy was restarted, calls %v; the condition is %+v; %+v", calls, o.condition(), quirks)
				}
			})
		})
	}
}

// putPod creates a pod with an endpoint.
func (o *overlaid) putPod(t *testing.T, i int) {
	t.Helper()
	name, address := fmt.Sprintf("sandbox-%d", i), fmt.Sprintf("10.132.1.%d", i+10)
	o.hns.Add(hns.State{Endpoints: []hns.Endpoint{{Network: o.hns.State().Networks[0].ID, Name: name, Address: netip.MustParseAddr(address)}}})
	mustWrite(t, o.windows.Disk(), desired.CNIResults+`\`+name, fmt.Sprintf(`{"containerId":%q,"result":{"ips":[{"address":"%s/24"}]}}`, name, address))
	o.windows.AddContainer(name, "")
}
