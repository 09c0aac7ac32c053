package configure_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestLeaveRestoresOriginalState(t *testing.T) {
	w, c := newShared(t), daemontest.NewPayload("1")
	before := stateOf(t, w)
	r := leavingRequest(t, c)
	mustJoinAndWork(t, w, r, c)
	result := daemontest.MustLeave(t, w, r.Cluster)
	expectState(t, w, before)
	if len(result.Remains) != 0 {
		t.Errorf("remains: %q", result.Remains)
	}
	for _, part := range []string{
		"service kubelet removed", "container pause stopped", "process of " + shim + " stopped", "network " + podNetwork + " of a pod removed",
		"variable NO_PROXY of the machine removed", desired.ContainerdRoot + " removed", `C:\k\store removed`, "left cluster " + r.Cluster,
		`firewall rule "kubelet" removed`, "Defender exclusion path " + desired.ContainerdRoot + " removed",
	} {
		if !slices.ContainsFunc(result.Removed, func(line string) bool { return strings.HasPrefix(line, part) }) {
			t.Errorf("%q is not reported; reported: %q", part, result.Removed)
		}
	}
	daemontest.ExpectContent(t, w.Disk(), `C:\var\log\kubelet\kubelet.log`, "x")
	status := daemontest.Status(t, w)
	if status.Joined != nil {
		t.Errorf("status %+v", status)
	}
	if last := status.Journal[len(status.Journal)-1].Change; !strings.HasPrefix(last, "left cluster "+r.Cluster) {
		t.Errorf("the journal ends with %q", last)
	}
	changes := w.Changes()
	if again := daemontest.MustLeave(t, w, r.Cluster); again.Removed != nil || again.Remains != nil || w.Changes() != changes {
		t.Errorf("the second leave made %d changes: %+v", w.Changes()-changes, again)
	}
}

// TestInterruptedLeaveConverges cuts the power, as a restart of Windows does, at each change that a leave makes.
func TestInterruptedLeaveConverges(t *testing.T) {
	c := daemontest.NewPayload("1")
	for name, prepare := range map[string]func(t *testing.T, w *sim.Windows) string{
		"joined": func(t *testing.T, w *sim.Windows) string {
			r := leavingRequest(t, c)
			mustJoinAndWork(t, w, r, c)
			return r.Cluster
		},
		"without a record": func(t *testing.T, w *sim.Windows) string {
			mustJoinAndWork(t, w, daemontest.NewRequest(c), c)
			for _, name := range []string{`\node.json`, `\node.copy.json`} {
				if err := w.Disk().Remove(desired.State + name); err != nil {
					t.Fatal(err)
				}
			}
			return daemontest.NewRequest(c).Cluster
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for at := 0; cutLeave(t, at, prepare); at++ {
					if t.Failed() {
						t.Fatalf("cut at %d", at)
					}
				}
			})
		})
	}
}

// cutLeave interrupts a leave after some changes and repeats it. isCut is false if it ended before.
func cutLeave(t *testing.T, at int, prepare func(t *testing.T, w *sim.Windows) (cluster string)) (isCut bool) {
	t.Helper()
	w := newShared(t)
	before := stateOf(t, w)
	cluster := prepare(t, w)
	w.CutPowerAfter(at)
	_, err := daemontest.NewWire(w).Leave(cluster)
	w.PowerCut()
	w.PowerOn()
	daemontest.MustLeave(t, w, cluster)
	expectState(t, w, before)
	if again := daemontest.MustLeave(t, w, cluster); again.Removed != nil {
		t.Errorf("the third leave removed %q", again.Removed)
	}
	w.PowerOff()
	return err != nil
}

func TestHostLeavesAndJoinsAnotherCluster(t *testing.T) {
	w, c := newShared(t), daemontest.NewPayload("1")
	before := stateOf(t, w)
	for _, cluster := range []string{"first", "second", "first"} {
		r := leavingRequest(t, c)
		r.Cluster, r.Bootstrap.Server = cluster, "https://"+cluster+".example"
		mustJoinAndWork(t, w, r, c)
		daemontest.MustJoin(t, w, r)
		daemontest.ExpectContent(t, w.Disk(), r.Desired.Files[0].Path, r.Desired.Files[0].Content)
		daemontest.ExpectServices(t, w, r)
		daemontest.MustLeave(t, w, cluster)
		expectState(t, w, before)
	}
}

// A host whose leave was interrupted can be joined instead, to the same cluster or another.
func TestLeavingHostCanBeJoined(t *testing.T) {
	for _, cluster := range []string{"first", "second"} {
		for _, fails := range []string{"delete kubelet", "end pause", `remove C:\k\state\node.copy.json`} {
			t.Run(cluster+", "+fails, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, c := newShared(t), daemontest.NewPayload("1")
					r := daemontest.NewRequest(c)
					r.Cluster = "first"
					mustJoinAndWork(t, w, r, c)
					w.FailNext(fails)
					_, _ = daemontest.NewWire(w).Leave("first")
					r.Cluster = cluster
					daemontest.MustSend(t, w, c)
					daemontest.MustJoin(t, w, r)
					if err := w.Disk().Remove(daemontest.WICDFile); err != nil {
						t.Fatal(err)
					}
					daemontest.ExpectJoined(t, w, r)
				})
			})
		}
	}
}

func TestHostOfOtherClusterIsUnchanged(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, w *sim.Windows){
		"joined":            func(*testing.T, *sim.Windows) {},
		"record unreadable": func(t *testing.T, w *sim.Windows) { daemontest.MustWrite(t, w.Disk(), desired.State+`\node.json`, "{") },
	} {
		t.Run(name, func(t *testing.T) {
			w, r := daemontest.NewNode(t, sim.WindowsOptions{})
			damage(t, w)
			changes := w.Changes()
			_, err := daemontest.NewWire(w).Leave("another")
			if e := daemontest.ExpectCode(t, err, wicdapi.CodeOtherCluster); !strings.Contains(e.Message, r.Cluster) {
				t.Errorf("%q does not name the cluster", e.Message)
			}
			if w.Changes() != changes {
				t.Errorf("%d changes were made", w.Changes()-changes)
			}
			_, err = daemontest.NewWire(w).Leave("")
			daemontest.ExpectCode(t, err, wicdapi.CodeRequestInvalid)
		})
	}
}

// Other installations put their Kubernetes into C:\k, too.
func TestLeaveIgnoresForeignKubernetes(t *testing.T) {
	w := newShared(t)
	daemontest.MustWrite(t, w.Disk(), `C:\k\kubelet.exe`, "somebody's")
	daemontest.MustWrite(t, w.Disk(), desired.KubeletData+`\config.yaml`, "somebody's")
	before, changes := stateOf(t, w), w.Changes()
	result := daemontest.MustLeave(t, w, "cluster")
	if result.Removed != nil || result.Remains != nil || w.Changes() != changes {
		t.Errorf("%d changes: %+v", w.Changes()-changes, result)
	}
	expectState(t, w, before)
}

// A host that only received content has nothing else of the operator's; a kubelet's data on it belong to another installation.
func TestLeaveRemovesReceivedContentOfUnjoinedHost(t *testing.T) {
	w := newShared(t)
	daemontest.MustWrite(t, w.Disk(), desired.KubeletData+`\config.yaml`, "somebody's")
	before := stateOf(t, w)
	daemontest.MustSend(t, w, daemontest.NewPayload("1"))
	daemontest.MustLeave(t, w, "cluster")
	expectState(t, w, before)
}

// TestLeavingHostIsNeitherRepairedNorUpdated: the original daemon worked against its own cleanup, and settings were written to hosts that were
// being removed.
func TestLeavingHostIsNeitherRepairedNorUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		w := m.Windows
		w.FailNext("stop " + api.WICDService)
		if _, err := daemontest.NewWire(w).Leave(m.Request.Cluster); err == nil {
			t.Fatal("the leave succeeded")
		}
		m.Publish(t, m.Changed())
		daemontest.MustStop(t, w, "kubelet", "containerd")
		w.DeleteService("kubelet")
		daemontest.MustWrite(t, w.Disk(), `C:\k\kubelet.conf`, "edited")
		w.SetVariable("HTTP_PROXY", "mine")
		before := stateOf(t, w)
		for range 3 {
			time.Sleep(20 * time.Minute)
			expectState(t, w, before)
			m.Stop() // the same after a restart of WICD
			m.Start(t)
		}
		daemontest.MustWrite(t, w.Disk(), desired.State+`\node.json`, "{") // lost in a power failure
		time.Sleep(20 * time.Minute)
		if status := daemontest.Status(t, w); status.Joined != nil || w.Service("kubelet").Name != "" {
			t.Errorf("the kubelet is %+v, joined: %+v", w.Service("kubelet"), status.Joined)
		}
		daemontest.MustJoin(t, w, m.Request) // this ends the leave
		time.Sleep(20 * time.Minute)
		daemontest.ExpectServices(t, w, m.Request)
	})
}
