package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestAHostThatLeftIsWhatItWas(t *testing.T) {
	w, c := newShared(t), newCargo("1")
	before := stateOf(t, w)
	r := leavingRequest(t, c)
	mustJoinAndWork(t, w, r, c)
	result := mustLeave(t, w, r.Cluster)
	if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
		t.Errorf("before the join and after the leave (-want +got):\n%s", diff)
	}
	if len(result.Remains) != 0 {
		t.Errorf("remains: %q", result.Remains)
	}
	for _, part := range []string{
		"service kubelet removed", "container pause stopped", "process of " + shim + " stopped", "network " + podNetwork + " of a pod removed",
		"variable NO_PROXY of the machine removed", desired.ContainerdRoot + " removed", `C:\k\store removed`, "left cluster " + r.Cluster,
		`firewall rule "kubelet" removed`, "Defender exclusion path " + desired.ContainerdRoot + " removed",
	} {
		if !slices.ContainsFunc(result.Removed, func(line string) bool { return strings.HasPrefix(line, part) }) {
			t.Errorf("%q is not told; told was %q", part, result.Removed)
		}
	}
	expectContent(t, w.Disk(), `C:\var\log\kubelet\kubelet.log`, "x")
	var status wicdapi.Status
	if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandStatus, nil, &status, nil); err != nil || status.Joined != nil {
		t.Fatalf("status %+v, %v", status, err)
	}
	if last := status.Journal[len(status.Journal)-1].Change; !strings.HasPrefix(last, "left cluster "+r.Cluster) {
		t.Errorf("the journal ends with %q", last)
	}
	changes := w.Changes()
	if again := mustLeave(t, w, r.Cluster); again.Removed != nil || again.Remains != nil || w.Changes() != changes {
		t.Errorf("the second leave made %d changes: %+v", w.Changes()-changes, again)
	}
}

// TestALeaveThatIsCutConverges cuts the power, as a restart of Windows does, at each change that a leave makes.
func TestALeaveThatIsCutConverges(t *testing.T) {
	c := newCargo("1")
	for name, prepare := range map[string]func(t *testing.T, w *sim.Windows) string{
		"joined": func(t *testing.T, w *sim.Windows) string {
			r := leavingRequest(t, c)
			mustJoinAndWork(t, w, r, c)
			return r.Cluster
		},
		"without a record": func(t *testing.T, w *sim.Windows) string {
			mustJoinAndWork(t, w, newRequest(c), c)
			for _, name := range []string{`\node.json`, `\node.copy.json`} {
				if err := w.Disk().Remove(desired.State + name); err != nil {
					t.Fatal(err)
				}
			}
			return newRequest(c).Cluster
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
	_, err := newWire(w).leave(cluster)
	w.PowerCut()
	w.PowerOn()
	mustLeave(t, w, cluster)
	if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
		t.Errorf("before the join and after the leave (-want +got):\n%s", diff)
	}
	if again := mustLeave(t, w, cluster); again.Removed != nil {
		t.Errorf("the third leave removed %q", again.Removed)
	}
	w.PowerOff()
	return err != nil
}

func TestHostLeavesAndJoinsAnotherCluster(t *testing.T) {
	w, c := newShared(t), newCargo("1")
	before := stateOf(t, w)
	for _, cluster := range []string{"first", "second", "first"} {
		r := leavingRequest(t, c)
		r.Cluster, r.Bootstrap.Server = cluster, "https://"+cluster+".example"
		mustJoinAndWork(t, w, r, c)
		mustJoin(t, w, r)
		expectContent(t, w.Disk(), r.Desired.Files[0].Path, r.Desired.Files[0].Content)
		expectServices(t, w, r)
		mustLeave(t, w, cluster)
		if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
			t.Errorf("after leaving %s (-want +got):\n%s", cluster, diff)
		}
	}
}

// A host whose leave was interrupted can be joined instead, to the same cluster or another.
func TestAHostThatBeganToLeaveCanBeJoined(t *testing.T) {
	for _, cluster := range []string{"first", "second"} {
		for _, fails := range []string{"delete kubelet", "end pause", `remove C:\k\state\node.copy.json`} {
			t.Run(cluster+", "+fails, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, c := newShared(t), newCargo("1")
					r := newRequest(c)
					r.Cluster = "first"
					mustJoinAndWork(t, w, r, c)
					w.FailNext(fails)
					_, _ = newWire(w).leave("first")
					r.Cluster = cluster
					mustSend(t, w, c)
					mustJoin(t, w, r)
					if err := w.Disk().Remove(WICDFile); err != nil {
						t.Fatal(err)
					}
					expectJoined(t, w, r)
				})
			})
		}
	}
}

func TestAHostOfAnotherClusterIsLeftAlone(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *sim.Windows){
		"joined":            func(*testing.T, *sim.Windows) {},
		"record unreadable": func(t *testing.T, w *sim.Windows) { mustWrite(t, w.Disk(), desired.State+`\node.json`, "{") },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			mustJoin(t, w, r)
			spoil(t, w)
			changes := w.Changes()
			_, err := newWire(w).leave("another")
			if e := expectCode(t, err, wicdapi.CodeOtherCluster); !strings.Contains(e.Message, r.Cluster) {
				t.Errorf("%q does not name the cluster", e.Message)
			}
			if w.Changes() != changes {
				t.Errorf("%d changes were made", w.Changes()-changes)
			}
			_, err = newWire(w).leave("")
			expectCode(t, err, wicdapi.CodeRequestInvalid)
		})
	}
}

// Other installations put their Kubernetes into C:\k, too.
func TestLeaveIgnoresForeignKubernetes(t *testing.T) {
	w := newShared(t)
	mustWrite(t, w.Disk(), `C:\k\kubelet.exe`, "somebody's")
	mustWrite(t, w.Disk(), desired.KubeletData+`\config.yaml`, "somebody's")
	before, changes := stateOf(t, w), w.Changes()
	result := mustLeave(t, w, "cluster")
	if result.Removed != nil || result.Remains != nil || w.Changes() != changes {
		t.Errorf("%d changes: %+v", w.Changes()-changes, result)
	}
	if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
		t.Error(diff)
	}
}

// A host that only received content has nothing else of the operator's; a kubelet's data on it belong to another installation.
func TestAHostThatNeverJoinedLosesWhatItReceived(t *testing.T) {
	w := newShared(t)
	mustWrite(t, w.Disk(), desired.KubeletData+`\config.yaml`, "somebody's")
	before := stateOf(t, w)
	mustSend(t, w, newCargo("1"))
	mustLeave(t, w, "cluster")
	if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
		t.Error(diff)
	}
}
