package configure_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// kubeletPendingFile is the kubelet's pending key.
const kubeletPendingFile = desired.KubeletCertificates + `\kubelet-client.key.tmp`

// TestOnlyAffectedServicesRestart: TestDisruptionsArePredicted has the other settings.
func TestOnlyAffectedServicesRestart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *wicdapi.JoinRequest)
		want   []string
	}{
		"containerd's file":   {func(r *wicdapi.JoinRequest) { r.Desired.Files[1].Content = "" }, []string{"containerd", "kubelet"}},
		"token while waiting": {func(r *wicdapi.JoinRequest) { r.Bootstrap.Token = "newer" }, []string{"kubelet", api.WICDService}},
		"address":             {func(r *wicdapi.JoinRequest) { r.NodeIP = "192.0.2.11" }, []string{"kubelet"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := daemontest.NewNode(t, sim.WindowsOptions{})
			before := daemontest.PIDs(w, r)
			test.change(&r)
			daemontest.MustJoin(t, w, r)
			daemontest.ExpectJoined(t, w, r)
			var started []string
			for _, s := range r.Desired.Services {
				if w.Service(s.Name).PID != before[s.Name] {
					started = append(started, s.Name)
				}
			}
			if diff := cmp.Diff(test.want, started); diff != "" {
				t.Errorf("started again (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInterruptedServiceRestartIsRepeated fails the join after a file was written and before its reader was restarted, without a power
// failure that would start it anyway.
func TestInterruptedServiceRestartIsRepeated(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{})
	pid := w.Service("kubelet").PID
	r.Desired.Files[0].Content = "{ }"
	w.FailNext("stop kubelet")
	if _, err := daemontest.NewWire(w).Join(r); err == nil {
		t.Fatal("the join succeeded")
	}
	daemontest.MustJoin(t, w, r)
	daemontest.ExpectJoined(t, w, r)
	if w.Service("kubelet").PID == pid {
		t.Error("the kubelet runs with the old configuration")
	}
}

// TestPendingKeysOfFormerTokenAreRemoved: requests made with a former token are never approved, and a service that found the key of one would wait
// for it.
func TestPendingKeysOfFormerTokenAreRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		token string
		fails []string // operations of which each fails in a separate join before the last one
		kept  bool
	}{
		"the same token":                 {token: daemontest.Token, kept: true},
		"another token":                  {token: "newer"},
		"another token, the restart cut": {token: "newer", fails: []string{"stop kubelet", "remove " + kubeletPendingFile, "remove " + daemontest.PendingFile, "start kubelet"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := daemontest.NewNode(t, sim.WindowsOptions{})
			keys := []string{daemontest.PendingFile, kubeletPendingFile}
			for _, key := range keys {
				daemontest.MustWrite(t, w.Disk(), key, "a key")
			}
			r.Bootstrap.Token = test.token
			for _, operation := range test.fails {
				w.FailNext(operation)
				if _, err := daemontest.NewWire(w).Join(r); err == nil {
					t.Errorf("the join succeeded although %q failed", operation)
				}
			}
			daemontest.MustJoin(t, w, r)
			daemontest.ExpectJoined(t, w, r)
			for _, key := range keys {
				if w.Disk().Exists(key) != test.kept {
					t.Errorf("%s exists: %t, want %t", key, !test.kept, test.kept)
				}
			}
		})
	}
}

func TestForeignServiceIsLeftAlone(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	daemontest.MustDeclare(t, w, desired.Service{Name: "containerd", Description: "Docker's", Command: `C:\Program Files\Docker\containerd.exe`})
	before := w.Changes()
	_, err := daemontest.NewWire(w).Join(r)
	e := daemontest.ExpectCode(t, err, wicdapi.CodeServiceConflict)
	daemontest.ExpectContains(t, e.Message, `"containerd"`, "Docker's", "sc.exe delete containerd")
	if changes := w.Changes() - before; changes != 0 {
		t.Errorf("%d changes were made", changes)
	}
}

// withCSIProxy adds a service that depends on the kubelet.
func withCSIProxy(r *wicdapi.JoinRequest) {
	r.Desired.Services = append(r.Desired.Services, daemontest.Service("csi-proxy", desired.VersionFolder(r.Desired.Digest)+`\kubelet.exe`, "kubelet"))
}

func TestObsoleteServicesAreRemoved(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{}, withCSIProxy)
	daemontest.MustDeclare(t, w, desired.Service{Name: "backup", Description: "Backs up", Command: `C:\k\kubelet.exe`})
	before := w.Service("kubelet").PID
	r.Desired.Services = r.Desired.Services[:3]
	result := daemontest.MustJoin(t, w, r)
	daemontest.ExpectJoined(t, w, r)
	if w.Service("csi-proxy").Name != "" || !slices.Contains(result.Changed, "service csi-proxy removed") {
		t.Errorf("csi-proxy is %+v; changed: %q", w.Service("csi-proxy"), result.Changed)
	}
	if w.Service("backup").Name == "" || w.Service("kubelet").PID != before {
		t.Error("a foreign service was removed, or a managed one was restarted")
	}
}

func TestStartFailureQuotesServiceLog(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	daemontest.MustWrite(t, w.Disk(), `C:\var\log\kubelet\kubelet.log`, "many lines\nE1120 the last line says why\n")
	w.FailNext("start kubelet")
	_, err := daemontest.NewWire(w).Join(r)
	e := daemontest.ExpectCode(t, err, wicdapi.CodeServiceFailed)
	daemontest.ExpectContains(t, e.Message, "kubelet", "simulated failure", "the last line says why")
	daemontest.MustJoin(t, w, r)
	daemontest.ExpectJoined(t, w, r)
}

// TestServiceStartIsRetriedWhileWindowsIsBusy: a computer that installs updates, for example, may fail to start a program within the
// service manager's limit of 30 seconds.
func TestServiceStartIsRetriedWhileWindowsIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{})
		w.Busy("start kubelet", 20*time.Second)
		daemontest.MustJoin(t, w, r)
		daemontest.ExpectJoined(t, w, r)
	})
}

func TestJoinFailsIfWindowsStaysBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{})
		w.Busy("start kubelet", time.Hour)
		_, err := daemontest.NewWire(w).Join(r)
		if e := daemontest.ExpectCode(t, err, wicdapi.CodeServiceFailed); !strings.Contains(e.Message, "service kubelet does not start: ") || !strings.Contains(e.Message, hostapi.ErrBusy.Error()) {
			t.Errorf("the message is %q", e.Message)
		}
	})
}

// TestJoinStartsWICDThatDidNotStartAtBoot: Windows does not retry the start, and the kubelet works without WICD.
func TestJoinStartsWICDThatDidNotStartAtBoot(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{Quirks: sim.Quirks{Setup: sim.SetupQuirks{SlowServices: sim.SlowServices{MissBoot: []string{api.WICDService}}}}})
	w.Restart()
	if got := w.Service(api.WICDService); got.State != hostapi.Stopped || got.ExitCode != 1053 {
		t.Fatalf("WICD is %s with exit code %d after the start of Windows", got.State, got.ExitCode)
	}
	daemontest.MustJoin(t, w, r)
	daemontest.ExpectServices(t, w, r)
}

// TestSlowServicesStart simulates hosts whose services start slowly, or miss the start of Windows.
func TestSlowServicesStart(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			drawn := sim.RandomQuirks(seed).Setup
			quirks := sim.SetupQuirks{SlowServices: drawn.SlowServices, Revision: drawn.Revision}
			w, r := daemontest.NewNode(t, sim.WindowsOptions{Quirks: sim.Quirks{Setup: quirks}})
			daemontest.ExpectServices(t, w, r)
			w.Restart()
			time.Sleep(time.Minute)
			daemontest.MustJoin(t, w, r) // the operator repairs hosts that do not report
			daemontest.ExpectServices(t, w, r)
			if t.Failed() {
				t.Logf("seed %d: %+v", seed, quirks)
			}
		})
	}
}
