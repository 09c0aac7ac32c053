package configure_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestUnremovableFileDoesNotBlockLeave has a file in use by a program that the leave does not end.
func TestUnremovableFileDoesNotBlockLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newShared(t), daemontest.NewPayload("1")
		before := stateOf(t, w)
		r := leavingRequest(t, c)
		mustJoinAndWork(t, w, r, c)
		const inUse = desired.KubeletData + `\pods\1\scanner.exe`
		daemontest.MustWrite(t, w.Disk(), inUse, "x")
		w.AddProgram(inUse)
		w.FailNext("end pause")
		result := daemontest.MustLeave(t, w, r.Cluster)
		if len(result.Remains) != 2 || !strings.HasPrefix(result.Remains[0], "container pause: ") || !strings.HasPrefix(result.Remains[1], inUse+": ") {
			t.Errorf("remains: %q", result.Remains)
		}
		if w.Disk().Exists(desired.ContainerdRoot) || w.Service("kubelet").Name != "" || w.Disk().Exists(desired.Store) {
			t.Error("a file in use prevented the removal of others")
		}
		w.PowerCut()
		w.PowerOn()
		if err := w.Disk().RemoveAll(desired.KubeletData); err != nil { // without a record, its owner is unknown
			t.Fatal(err)
		}
		daemontest.MustLeave(t, w, r.Cluster)
		expectState(t, w, before)
	})
}

// TestBrieflyUsedFilesAreRemoved: virus scanners, and processes that end with a delay, hold files briefly.
func TestBrieflyUsedFilesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newShared(t), daemontest.NewPayload("1")
		before := stateOf(t, w)
		r := leavingRequest(t, c)
		mustJoinAndWork(t, w, r, c)
		w.FailNext("remove " + desired.Store + `\` + c.Files[0].SHA256)
		w.FailNext("remove " + daemontest.CredentialFile)
		if result := daemontest.MustLeave(t, w, r.Cluster); len(result.Remains) != 0 {
			t.Errorf("remains: %q", result.Remains)
		}
		expectState(t, w, before)
	})
}

// TestOrphanedContainersAreStoppedBeforeFileRemoval: containers of DaemonSets are not drained, and their shims keep their program in
// use.
func TestOrphanedContainersAreStoppedBeforeFileRemoval(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{})
	addNodeFiles(t, w)
	if err := w.Host().Disk.Remove(shim); !errors.Is(err, sim.ErrInUse) {
		t.Fatalf("removing the program of a running shim: %v, want an error about its use", err)
	}
	daemontest.MustStop(t, w, "containerd")
	if len(w.Remnants()) != 4 {
		t.Fatalf("there are %q, want a container, its shim, its network and its layer", w.Remnants())
	}
	result := daemontest.MustLeave(t, w, r.Cluster)
	if len(w.Remnants()) != 0 || w.Disk().Exists(shim) || len(result.Remains) != 0 {
		t.Errorf("there are %q; remains: %q", w.Remnants(), result.Remains)
	}
}

func TestServicesAreRemovedAfterDependents(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{}, withCSIProxy)
	daemontest.MustStop(t, w, "csi-proxy") // stopping a stopped service is not an error
	result := daemontest.MustLeave(t, w, r.Cluster)
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
	w, r := daemontest.NewNode(t, sim.WindowsOptions{})
	const home = `C:\Users\Administrator\`
	own := home + "wicd-0123456789abcdef.exe"
	for _, name := range []string{own, home + "wicd-0123456789abcdef-setup.exe", home + "wicd-aaaabbbbccccdddd.exe", home + "wicd-aaaabbbbccccdddd.exe.12.part", home + "wicd-mine.exe"} {
		daemontest.MustWrite(t, w.Disk(), name, "x")
	}
	wire := daemontest.NewWire(w)
	wire.Path = own
	result, err := wire.Leave(r.Cluster)
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
		w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: "each restart is expected", Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureDisabled}})
		time.Sleep(10 * time.Second)
		daemontest.MustJoin(t, w, r)
		want := []string{"feature Containers of Windows (stays enabled)"}
		if result := daemontest.MustLeave(t, w, r.Cluster); !slices.Equal(result.Remains, want) {
			t.Errorf("remains: %q, want %q", result.Remains, want)
		}
	})
}

// TestLeaveRemovesLocksHeldByScanner: virus scanners hold every file briefly, including the last lock.
func TestLeaveRemovesLocksHeldByScanner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := sim.Quirks{Files: sim.FileQuirks{Held: 90 * time.Millisecond, HeldCode: 32}}
		w, r := daemontest.NewNode(t, sim.WindowsOptions{Quirks: q})
		daemontest.MustLeave(t, w, r.Cluster)
		for _, name := range []string{desired.State + `\command.lock`, desired.State + `\services.lock`} {
			if w.Disk().Exists(name) {
				t.Errorf("%s was kept", name)
			}
		}
	})
}
