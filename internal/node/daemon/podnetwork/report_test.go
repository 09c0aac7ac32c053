package podnetwork

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/node/overlaystatus"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// TestMissingNetworkReportsOverlayProblem: if the network is missing, the message begins with what its service waits for.
func TestMissingNetworkReportsOverlayProblem(t *testing.T) {
	treated := overlaystatus.Problem{Reason: api.ReasonOverlayNodeTreatedAsLinux, Message: "OVN-Kubernetes treats this Windows node as Linux"}
	v := networkView{now: time.Now(), state: hns.State{}, creator: []overlaystatus.Problem{treated}}
	reason, message, isFault := newNetworkMemory().evaluate(overlayWanted(), v).message()
	if reason != treated.Reason || message != treated.Message || !isFault {
		t.Errorf("reported %s (fault: %v): %s", reason, isFault, message)
	}
	m := newNetworkMemory()
	for v.now = v.now.Add(time.Second); v.now.Before(time.Now().Add(time.Hour)); v.now = v.now.Add(time.Minute) {
		v.state = hns.State{}
		if p := m.evaluate(overlayWanted(), v); len(p.restart) > 0 {
			t.Fatalf("a service that reports its problem is restarted: %v", p.restart)
		}
	}
	// With a network, it is reported in addition to other problems.
	v = networkView{now: time.Now(), state: healthy(0), creator: []overlaystatus.Problem{{Reason: api.ReasonOverlayNeighborRefused, Message: "win-2"}}}
	v.state.Endpoints = nil
	reason, message, _ = newNetworkMemory().evaluate(overlayWanted(), v).message()
	if reason != api.ReasonHNSEndpointLost || !strings.HasSuffix(message, "; win-2") {
		t.Errorf("reported %s: %s", reason, message)
	}
}

// TestNetworkServiceStatusIsRead, and a damaged file is ignored.
func TestNetworkServiceStatusIsRead(t *testing.T) {
	r := &Reconciler{Session: state.Session{Host: hostapi.Host{Disk: hostapi.Disk{Root: t.TempDir()}}, Log: slog.New(slog.DiscardHandler)}}
	n := &reconciliation{Reconciler: r, want: desired.Network{StatusFile: `C:\k\hybrid-overlay.status`}}
	if got := n.readStatus(); got != nil {
		t.Errorf("without a file: %v", got)
	}
	problem := overlaystatus.Problem{Reason: api.ReasonOverlaySubnetMissing, Message: "no subnet"}
	if _, err := r.Host.Disk.WriteFile(n.want.StatusFile, string(overlaystatus.Encode(overlaystatus.Status{Problems: []overlaystatus.Problem{problem}}))); err != nil {
		t.Fatal(err)
	}
	if got := n.readStatus(); len(got) != 1 || got[0] != problem {
		t.Errorf("got %v", got)
	}
	n.announce(networkPlan{notices: []networkProblem{{api.ReasonServiceNotProgrammed, "a Service"}}}, n.readStatus())
	n.announce(networkPlan{notices: []networkProblem{{api.ReasonServiceNotProgrammed, "another Service"}}}, n.readStatus())
	if len(r.repairs) != 2 || r.repairs[0].Reason != api.ReasonOverlaySubnetMissing || r.repairs[1].Message != "a Service" {
		t.Errorf("events: %v", r.repairs)
	}
	for _, damaged := range []string{"", "{", strings.Repeat("x", 1<<17)} {
		if _, err := r.Host.Disk.WriteFile(n.want.StatusFile, damaged); err != nil {
			t.Fatal(err)
		}
		if got := n.readStatus(); got != nil {
			t.Errorf("%.10q: %v", damaged, got)
		}
	}
}

// TestUnprogrammedServiceIsNoNetworkFault: all nodes may have the same cause.
func TestUnprogrammedServiceIsNoNetworkFault(t *testing.T) {
	p := networkPlan{notices: []networkProblem{{api.ReasonServiceNotProgrammed, "kube-proxy created no load balancer for 1 of 3 Service ports"}}}
	reason, message, isFault := p.message()
	c := networkState{known: true, reason: reason, message: message, isFault: isFault}.condition()
	if c.Status != corev1.ConditionFalse || c.Reason != api.ReasonServiceNotProgrammed || c.Message != p.notices[0].message {
		t.Errorf("condition %+v", c)
	}
}

func TestLossIsSharedIfMessageMayNameIt(t *testing.T) {
	front := kubeproxy.Frontend{Port: 80, Protocol: hns.TCP}
	lost := map[kubeproxy.Frontend]types.NamespacedName{front: {Namespace: "shop", Name: "web"}}
	const begin = "2 of 9 Service ports have no load balancer: "
	for message, want := range map[string]bool{
		begin + nameOf(front, lost[front]):                                 true,
		begin + "shop/cart (*:81/TCP)":                                     false,
		begin + truncate.List([]string{"a", "b", "c"}, 2, ", "):            true,
		begin + "shop/cart (*:81/TCP); the cause: no more connections":     false,
		begin + "shop/cart (*:81/TCP); there are more than 100000 objects": false,
	} {
		if got := namesOneOf(message, lost); got != want {
			t.Errorf("%q: got %v", message, got)
		}
	}
}
