package daemon_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestUnremovableFileDoesNotBlockLeave has a file in use by a program that the leave does not end.
func TestUnremovableFileDoesNotBlockLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newShared(t), newCargo("1")
		before := stateOf(t, w)
		r := leavingRequest(t, c)
		mustJoinAndWork(t, w, r, c)
		const inUse = desired.KubeletData + `\pods\1\scanner.exe`
		mustWrite(t, w.Disk(), inUse, "x")
		w.AddProgram(inUse)
		w.FailNext("end pause")
		result := mustLeave(t, w, r.Cluster)
		if len(result.Remains) != 2 || !strings.HasPrefix(result.Remains[0], "container pause: ") || !strings.HasPrefix(result.Remains[1], inUse+": ") {
			t.Errorf("remains: %q", result.Remains)
		}
		if w.Disk().Exists(desired.ContainerdRoot) || w.Service("kubelet").Name != "" || w.Disk().Exists(desired.Store) {
			t.Error("one file in use kept others from going")
		}
		w.PowerCut()
		w.PowerOn()
		if err := w.Disk().RemoveAll(desired.KubeletData); err != nil { // without a record, its owner is unknown
			t.Fatal(err)
		}
		mustLeave(t, w, r.Cluster)
		if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFilesThatAreInUseForAMomentGo: virus scanners, and processes that end with a delay, hold files briefly.
func TestFilesThatAreInUseForAMomentGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newShared(t), newCargo("1")
		before := stateOf(t, w)
		r := leavingRequest(t, c)
		mustJoinAndWork(t, w, r, c)
		w.FailNext("remove " + desired.Store + `\` + c.files[0].SHA256)
		w.FailNext("remove " + credentialFile)
		if result := mustLeave(t, w, r.Cluster); len(result.Remains) != 0 {
			t.Errorf("remains: %q", result.Remains)
		}
		if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestContainersThatOutliveContainerdAreEndedBeforeTheirFilesGo: containers of DaemonSets are not drained, and their shims keep their program in
// use.
func TestContainersThatOutliveContainerdAreEndedBeforeTheirFilesGo(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	r := newRequest(c)
	mustJoinAndWork(t, w, r, c)
	if err := w.Host().Disk.Remove(shim); !errors.Is(err, sim.ErrInUse) {
		t.Fatalf("removing the program of a shim that runs: %v, want that it is in use", err)
	}
	if err := w.Host().Services.Stop(t.Context(), "containerd"); err != nil {
		t.Fatal(err)
	}
	if len(w.Remnants()) != 4 {
		t.Fatalf("there are %q, want a container, its shim, its network and its layer", w.Remnants())
	}
	result := mustLeave(t, w, r.Cluster)
	if len(w.Remnants()) != 0 || w.Disk().Exists(shim) || len(result.Remains) != 0 {
		t.Errorf("there are %q; remains: %q", w.Remnants(), result.Remains)
	}
}

func TestServicesGoAfterThoseThatNeedThem(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Services = append(r.Desired.Services, ours("csi-proxy", desired.VersionFolder(c.digest())+`\kubelet.exe`, "kubelet"))
	mustJoin(t, w, r)
	if err := w.Host().Services.Stop(t.Context(), "csi-proxy"); err != nil { // stopping a stopped service is no error
		t.Fatal(err)
	}
	result := mustLeave(t, w, r.Cluster)
	var removed []string
	for _, line := range result.Removed {
		if name, ok := strings.CutPrefix(line, "service "); ok {
			removed = append(removed, strings.TrimSuffix(name, " removed"))
		}
	}
	want := []string{api.WICDService, "csi-proxy", "kubelet", "containerd"}
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("services removed (-want +got):\n%s", diff)
	}
}

func TestLeaveKeepsOnlyRunningProgram(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	const home = `C:\Users\Administrator\`
	own := home + "wicd-0123456789abcdef.exe"
	for _, name := range []string{own, home + "wicd-0123456789abcdef-setup.exe", home + "wicd-aaaabbbbccccdddd.exe", home + "wicd-aaaabbbbccccdddd.exe.12.part", home + "wicd-mine.exe"} {
		mustWrite(t, w.Disk(), name, "x")
	}
	mustSend(t, w, c)
	mustJoin(t, w, newRequest(c))
	wire := newWire(w)
	wire.path = own
	result, err := wire.leave(newRequest(c).Cluster)
	if err != nil {
		t.Fatal(err)
	}
	left, _ := w.Disk().List(`C:\Users\Administrator`)
	if diff := cmp.Diff([]string{"wicd-0123456789abcdef.exe", "wicd-mine.exe"}, left); diff != "" {
		t.Errorf("in the home folder (-want +got):\n%s", diff)
	}
	if len(result.Remains) != 1 || !strings.HasPrefix(result.Remains[0], own+": ") {
		t.Errorf("remains: %q", result.Remains)
	}
}

func TestEnabledFeatureIsListedAsRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, sim.WindowsOptions{Kind: "each restart is expected", Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureDisabled}}), newCargo("1")
		mustSend(t, w, c)
		mustJoin(t, w, newRequest(c))
		time.Sleep(10 * time.Second)
		mustJoin(t, w, newRequest(c))
		want := []string{"feature Containers of Windows (stays enabled)"}
		if result := mustLeave(t, w, newRequest(c).Cluster); !slices.Equal(result.Remains, want) {
			t.Errorf("remains: %q, want %q", result.Remains, want)
		}
	})
}

// TestALeaveLeavesNoLockToAScanner: virus scanners hold every file briefly, including the last lock.
func TestALeaveLeavesNoLockToAScanner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := sim.Quirks{Files: sim.FileQuirks{Held: 90 * time.Millisecond, HeldCode: 32}}
		w, c := newWindows(t, sim.WindowsOptions{Quirks: q}), newCargo("1")
		mustSend(t, w, c)
		r := newRequest(c)
		mustJoin(t, w, r)
		mustLeave(t, w, r.Cluster)
		for _, name := range []string{desired.State + `\command.lock`, desired.State + `\services.lock`} {
			if w.Disk().Exists(name) {
				t.Errorf("%s stayed", name)
			}
		}
	})
}
